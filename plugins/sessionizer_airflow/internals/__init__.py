"""What of Airflow and its Spark provider has no public interface: the one place to look at when either is upgraded."""
