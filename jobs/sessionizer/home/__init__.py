"""Where everything of the platform, of a stream and of a lineage is, and how files are written there."""
