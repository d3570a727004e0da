"""What the files of a Spark checkpoint tell, whoever made it: read without Spark, never written."""
