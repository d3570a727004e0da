"""The events the contestants read."""
