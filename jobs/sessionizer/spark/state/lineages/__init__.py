"""Lineages that begin with a state: seeded with its rows, by whichever verb."""
