"""The control directory of a stream: its driver, its condition and its desired state."""
