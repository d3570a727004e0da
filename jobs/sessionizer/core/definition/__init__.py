"""What a session is, in plain Python: no Arrow, no Spark."""
