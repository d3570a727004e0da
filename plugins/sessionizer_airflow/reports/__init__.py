"""Reports on drivers without a spec, streams that nobody watches and commands that no process carries out."""
