"""The reading of spec files, and the message about the problems in them."""
