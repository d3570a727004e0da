"""Files of this machine's disk: bounded logs, room, folders closed to others, clients over forks."""
