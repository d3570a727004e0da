"""The records that people, drivers and Airflow leave for each other in a stream's control directory."""
