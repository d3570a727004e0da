"""The contestants: each starts one streaming query over the same files, into a Delta table."""
