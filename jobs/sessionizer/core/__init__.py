"""Pure decisions on values and Arrow tables, without Spark, Airflow and files."""
