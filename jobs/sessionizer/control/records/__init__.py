"""The records that commands, drivers and Airflow leave for each other in a stream's control directory."""
