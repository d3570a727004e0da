"""The layout of events in Arrow, between stages and in the state."""
