"""Airflow's side of the platform: start a stream's driver, keep it up, tell others when sessions have landed."""
