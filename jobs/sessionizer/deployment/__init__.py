"""From a spec that people wrote to the one that a lineage runs by: what is applied when, and what is refused."""
