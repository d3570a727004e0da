"""Plugin for an Airflow whose plugins folder is this one. An installed package has an entry point instead."""

from sessionizer_airflow.plugin import SessionizerPlugin

__all__ = ["SessionizerPlugin"]
