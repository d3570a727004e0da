"""Erasure of people: the search that proves it."""
