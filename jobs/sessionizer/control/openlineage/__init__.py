"""OpenLineage events: each driver and each command on the state is a run (docs/openlineage.md)."""
