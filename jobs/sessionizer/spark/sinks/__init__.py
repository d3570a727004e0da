"""The Delta tables of a stream: their columns, their owner, and what a batch writes."""
