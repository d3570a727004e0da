"""Schemas of values in bytes, as columns of a source."""
