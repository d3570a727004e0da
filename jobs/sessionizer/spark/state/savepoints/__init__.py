"""What is open, kept: canonical savepoints made and counted, and the state in one of either kind."""
