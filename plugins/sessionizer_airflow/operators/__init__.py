"""The operators of the platform, and how a task of theirs fails."""
