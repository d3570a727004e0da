"""Commands that change a stream's state: a plan, an approval by digest, and the doing."""
