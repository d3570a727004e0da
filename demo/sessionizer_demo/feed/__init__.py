"""The demo feed: realistic, seeded input with known faults, for a folder or a Kafka topic.

From pure to adapter: ``clients`` and ``day_curve`` (who comes, when) → ``visits`` and ``crowd`` (what they do) →
``faults`` (what goes wrong) → ``click_rows`` / ``access_log`` (bytes) → ``generator`` (one iterator of all that) →
``pacing`` → ``folder_sink`` / ``kafka_sink`` → ``runner`` → ``commands``.
"""
