"""Measurements of the contestants' runs."""
