"""The demo, started, followed and ended by one command."""
