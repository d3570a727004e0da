"""The canary of a lineage that a command made: its first batches are judged against the lineage before it."""
