"""A source of files: listed, read line by line, watched for changes."""
