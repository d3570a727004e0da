"""Requests in the form of ``sessionizer.operate``: filled in by a user, planned, approved, carried out."""
