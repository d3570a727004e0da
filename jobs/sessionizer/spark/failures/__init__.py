"""Spark's failures, as errors that say whether a restart can help."""
