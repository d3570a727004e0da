"""The demo feed: realistic, seeded input with known faults, for a folder or a Kafka topic.

From pure to adapter: ``traffic`` (who comes, when, and what they do) → ``rows`` (what goes wrong, and the bytes) →
``generator`` (one iterator of all that) → ``pacing`` → ``sinks`` → ``runner`` → ``commands``.
"""
