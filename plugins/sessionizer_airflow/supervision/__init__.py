"""Keeping a stream's driver up: observe, decide, act; then watch, and tell. What decides is pure (docs/airflow.md)."""
