"""Replay of recorded batches on a copy of a lineage, into tables of its own."""

DECIDES_NO_ROW = "it replays batches apart from the tables, by the deciding code"
