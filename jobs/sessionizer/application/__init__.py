"""The application that spark-submit runs, in a folder of its own: Spark puts that folder first on the path."""
