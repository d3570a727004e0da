"""Commands that change a stream's state, one file each: its options, its plan, its steps in order."""
