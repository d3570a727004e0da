"""The causes of a driver's end or failed start, whether a retry helps, and what to do."""

DECIDES_NO_ROW = "it explains why a driver ended"
