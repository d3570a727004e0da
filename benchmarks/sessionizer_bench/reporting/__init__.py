"""From the records of runs to tables and plots. Nothing here is typed by hand into the docs."""
