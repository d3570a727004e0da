"""The state of a lineage as rows: read out of a checkpoint, written as a savepoint, counted and compared."""
