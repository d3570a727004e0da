"""From the records to what a stream and its drivers are doing."""
