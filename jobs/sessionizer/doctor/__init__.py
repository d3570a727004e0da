"""The check of an installation: facts about this machine, a finding for each, and a remedy for each problem."""

DECIDES_NO_ROW = "it checks an installation"
