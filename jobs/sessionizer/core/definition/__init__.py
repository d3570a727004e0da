"""The definition of a session in plain Python, without Arrow and Spark."""
