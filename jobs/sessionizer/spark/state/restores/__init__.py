"""The way back: what a restore or a rollback would do, and its doing."""
