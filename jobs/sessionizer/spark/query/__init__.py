"""The streaming query: packed events to key groups, and what they emit back to rows."""
