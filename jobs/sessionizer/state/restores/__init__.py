"""Plan of a restore: rows that are deleted, events that are read again, the plan and its digest."""
