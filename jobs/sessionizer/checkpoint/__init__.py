"""Files of Spark's checkpoints: what each kind holds. The only package that knows their names and forms."""
