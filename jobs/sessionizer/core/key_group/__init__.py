"""A key group's work on its share of a batch, on Arrow columns of many keys at once."""
