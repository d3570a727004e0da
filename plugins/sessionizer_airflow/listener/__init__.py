"""What people mean who act on a task in Airflow's pages."""
