"""Records that a lineage keeps beside its checkpoint: which one is active, its spec, its types, its end."""
