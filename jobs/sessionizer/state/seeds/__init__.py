"""What a seed would do, as data: a history, up to which moment, and where the live source begins."""
