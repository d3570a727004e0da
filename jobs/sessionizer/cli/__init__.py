"""The command line."""

DECIDES_NO_ROW = "it parses options and prints"
