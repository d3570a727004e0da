"""The trial of a lineage that a verb made: its first batches, judged against what the lineage before it did."""
