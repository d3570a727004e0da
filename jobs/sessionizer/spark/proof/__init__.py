"""Replay of recorded batches on a copy of a lineage, into tables of its own."""
