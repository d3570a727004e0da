"""Pages behind the links of a supervising task: small pages in Airflow's own API server."""
