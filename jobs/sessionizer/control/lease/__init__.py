"""The right to drive a stream: one owner at a time, told apart by a fencing token."""
