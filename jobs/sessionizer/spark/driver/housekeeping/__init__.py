"""Housekeeping of a driver between two looks at its query."""
