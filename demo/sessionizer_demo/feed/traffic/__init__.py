"""The users of the site and their clicks."""
