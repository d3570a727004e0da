"""Adapters: the streaming query, its driver and the batch jobs, on PySpark."""
