"""Position of a lineage, the state that it transfers to the next, and the expected content of that one."""
