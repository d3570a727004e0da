"""The sinks that a feed writes to."""
