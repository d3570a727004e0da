"""What a restore would do: rows that leave, events that are read again, the plan and its digest."""
