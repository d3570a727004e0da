"""A whole Airflow on this machine, on the loopback interface only, for the demo and for tests without mocks."""
