"""What a person asks of a stream in the form of ``sessionizer.operate``: asked, planned, approved, carried out."""
