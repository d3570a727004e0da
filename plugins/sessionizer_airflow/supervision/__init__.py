"""Supervision of a stream's driver: observe, decide, act, then watch and tell.

The deciding part is pure (docs/airflow.md).
"""
