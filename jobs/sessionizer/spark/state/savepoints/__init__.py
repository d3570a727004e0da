"""Saved states: canonical savepoints made and counted, and the state in a savepoint of either kind."""
