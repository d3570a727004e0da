"""What the links of a supervising task open: small pages in Airflow's own API server."""
