"""A whole Airflow on this machine, loopback only: for the demo, and for tests with nothing mocked."""
