"""From files of a folder to specs, and from what is wrong in them to one message."""
