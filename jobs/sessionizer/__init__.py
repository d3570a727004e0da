"""Sessions from a Spark stream whose state can be saved, moved and upgraded."""

__version__ = "0.4.0.dev0"
