"""The process that owns a stream's lease and runs its query until it is told to stop."""
