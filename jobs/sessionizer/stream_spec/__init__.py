"""The stream spec: one YAML file per stream, checked before anything starts."""
