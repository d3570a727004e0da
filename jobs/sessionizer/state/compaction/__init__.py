"""Plan of a compaction: how long old files of the tables stay, and the checkpoints that no command needs."""
