"""Runners of the commands' steps: each looks at the stream, and makes the new lineage of its command."""
