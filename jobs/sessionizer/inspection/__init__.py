"""Inspection of a Spark checkpoint of any query: its files are read without Spark, never written."""

DECIDES_NO_ROW = "it reads checkpoints for people"
