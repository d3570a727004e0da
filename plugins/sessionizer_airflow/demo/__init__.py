"""The demo: Airflow, a feed and a stream on this machine, started and ended by one command."""
