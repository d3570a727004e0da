"""What a feed writes of that, and what goes wrong on the way."""
