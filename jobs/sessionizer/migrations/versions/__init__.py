"""Released revisions of the layout of open events, a module for each. None imports anything of ours."""
