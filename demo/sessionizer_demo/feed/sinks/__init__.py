"""What a feed writes to."""
