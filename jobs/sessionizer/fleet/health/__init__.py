"""The health of a stream in one word, with the rule, the time since when, and what to do."""
