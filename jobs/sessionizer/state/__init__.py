"""Savepoints and their uses as data: manifests, states, plans. Pure, except for the records that it reads."""
