"""The rows that a feed writes of the traffic, with their faults."""
