"""The driver: the process that owns a stream's lease and runs its query until it is asked to stop."""
