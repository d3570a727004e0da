"""Plan of a seed, as data: a history, its end, and the position at which the live source begins."""
