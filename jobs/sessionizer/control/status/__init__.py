"""The state of a stream and its drivers, read from the records."""
