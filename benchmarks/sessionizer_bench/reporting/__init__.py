"""Tables and plots from the records of runs. No figure is typed into the docs by hand."""
