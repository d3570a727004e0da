"""Uses of Airflow and its Spark provider beyond their public interfaces: check here after an upgrade of either."""
