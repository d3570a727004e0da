"""Views of all streams of a platform."""

DECIDES_NO_ROW = "it shows streams"
