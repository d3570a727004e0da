"""Operators of the platform, and the failure of their tasks."""
