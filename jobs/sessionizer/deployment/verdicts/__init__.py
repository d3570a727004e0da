"""Differences between the two sides of an upgrade, each with one verdict. Pure."""
