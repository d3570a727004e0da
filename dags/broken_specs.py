"""A file without a DAG, whose import fails while a spec file is broken. Airflow then lists it as an import error."""

from os import environ

from sessionizer_airflow import check_specs

check_specs(globals(), environ.get("SESSIONIZER_STREAMS", "streams"))
