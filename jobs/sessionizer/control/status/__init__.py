"""The state of a stream and its drivers, read from the records."""

DECIDES_NO_ROW = "it reads what a driver does"
