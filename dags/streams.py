"""All DAGs of the streams in ``streams``, or in the folder that SESSIONIZER_STREAMS names."""

from os import environ

from sessionizer_airflow import stream_dags

stream_dags(globals(), environ.get("SESSIONIZER_STREAMS", "streams"))
