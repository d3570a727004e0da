"""Pure decisions on values and Arrow tables; no Spark, no Airflow, no files."""
