"""Savepoints: their content, their list, their state, and when one is made or removed."""
