"""Ingest: a source's rows become events, or get the reason why they are none."""
