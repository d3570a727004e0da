"""The places of the platform's, a stream's and a lineage's files, and the functions that write files there."""
