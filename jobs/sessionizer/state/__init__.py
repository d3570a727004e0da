"""Savepoints and what is made of them, as data: manifests, states, plans. Pure, but for the records it reads."""
