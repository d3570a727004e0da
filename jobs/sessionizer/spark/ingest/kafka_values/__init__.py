"""Values of Kafka's records, as columns of the source."""
