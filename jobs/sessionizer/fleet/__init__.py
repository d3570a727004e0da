"""Views of all streams of a platform."""
