"""Where a lineage stands, what it hands over to the next, and what that must come to hold."""
