"""The Streams page: an application and ES modules. Airflow mounts it, and ``sessionizer page`` serves it alone."""

DECIDES_NO_ROW = "it shows streams"
