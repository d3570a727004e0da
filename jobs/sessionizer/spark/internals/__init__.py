"""The one door to private parts of Spark, Delta and PySpark, with a public way beside each (docs/adr/0070).

Nothing outside this folder touches py4j, Catalyst, Delta's classes or private names of PySpark. The variable
``SESSIONIZER_PLAIN_SPARK`` takes the public way everywhere: an upgrade that moves a private part makes a stream slower,
and never ends it.
"""
