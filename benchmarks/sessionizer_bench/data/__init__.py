"""The events that the contestants read."""
