"""The history of a stream: figures by the minute and marks, in files by the hour. It outlives the drivers."""

DECIDES_NO_ROW = "it keeps figures of batches for charts"
