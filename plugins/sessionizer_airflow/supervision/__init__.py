"""Deciding what a stream needs now: pure, without Airflow."""
