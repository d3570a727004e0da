"""From a source's rows to events, or to the reason why a row is none."""
