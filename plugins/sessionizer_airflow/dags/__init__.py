"""The DAGs of streams and of the platform, made in a user's DAG file by ``stream_dags``. Wiring only."""
