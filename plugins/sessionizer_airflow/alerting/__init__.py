"""Alerts to users about a stream, through the notifier of their choice."""
