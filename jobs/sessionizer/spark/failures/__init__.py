"""Why Spark could not go on, as errors that say whether a restart can help."""
