"""Telling people, wherever they want to be told, what has become of a stream."""
