"""The one door to what Spark, Delta and PySpark do not offer publicly, with a public way beside each (docs/adr/0070).

Nothing outside this folder touches py4j, Catalyst, Delta's classes or private names of PySpark. The switch in
``launch/plain_spark.py`` takes the public way everywhere: an upgrade that moves what is private makes a stream slower,
and never ends it.
"""
