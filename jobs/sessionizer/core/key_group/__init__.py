"""What a key group does with its share of a batch, on Arrow columns of many keys at once."""
