"""The demo feed: realistic, seeded input with known faults, for a folder or a Kafka topic.

From pure to adapter: ``traffic`` (the users and their clicks) → ``rows`` (the faults and the bytes) → ``generator``
(one iterator over all rows) → ``pacing`` → ``sinks`` → ``runner`` → ``commands``.
"""
