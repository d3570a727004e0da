"""Sessions of a history at once, and the report on those that a stream has written."""
