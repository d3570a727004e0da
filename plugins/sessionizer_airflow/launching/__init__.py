"""Launch of a driver that outlives the task that started it."""
