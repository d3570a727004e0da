"""Commands that show what a change does: to open sessions, to recorded batches."""
