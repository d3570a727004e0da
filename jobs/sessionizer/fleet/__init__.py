"""All streams of a platform at a glance."""
