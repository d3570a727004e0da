"""Answers about one key, one event or one reason, from the files of a stream's Delta tables, without Spark."""
