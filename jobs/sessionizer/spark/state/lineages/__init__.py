"""Lineages that begin with a state: seeded with its rows, for any command."""
