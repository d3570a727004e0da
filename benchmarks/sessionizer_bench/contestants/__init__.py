"""The contestants. Each starts one streaming query over the same files, into a Delta table."""
