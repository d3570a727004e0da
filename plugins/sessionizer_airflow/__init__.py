"""Airflow's side of the platform: start and supervise a stream's driver, and announce new sessions."""
