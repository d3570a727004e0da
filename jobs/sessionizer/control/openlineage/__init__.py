"""OpenLineage events: each driver and each command on the state is a run (docs/openlineage.md)."""

DECIDES_NO_ROW = "it reports batches to a catalogue of lineage"
