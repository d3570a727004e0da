"""Listener for users' actions on a task in Airflow's pages."""
