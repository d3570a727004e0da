"""What a driver is started with, whoever starts it."""
