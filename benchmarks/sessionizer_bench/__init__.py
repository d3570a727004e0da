"""The benchmark of our query beside its peers, over the same events into the same kind of table."""
