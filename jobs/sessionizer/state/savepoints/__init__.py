"""What a savepoint is made of, which there are, what they are worth, and when one is made or goes."""
