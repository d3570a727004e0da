"""Migrations of open events: those that a stream declares in its spec, and the released revisions of the layout."""
