"""Reports on drivers without a spec, streams without supervision and commands without a process."""
