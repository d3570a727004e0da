"""The one door to what Spark and Delta do not offer publicly: py4j, Catalyst, Delta's transactions."""
