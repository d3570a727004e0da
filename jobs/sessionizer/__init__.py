"""Sessions from a Spark stream whose state can be saved, moved and upgraded."""
