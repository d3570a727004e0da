"""Proof of a release or a spec: recorded batches replayed by it, and compared with the tables."""

DECIDES_NO_ROW = "it compares rows"
