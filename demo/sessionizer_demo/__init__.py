"""The demo: Airflow, a feed and a stream on one machine. Not part of the product."""
