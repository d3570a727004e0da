"""Fixtures with a real Kafka broker; ``pytest_plugins = ["kafka_fixtures"]`` makes them known."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import pytest

from support.processes.kafka_broker import KafkaBroker

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def running_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    """The one broker of the test run."""
    with KafkaBroker(tmp_path_factory.mktemp("kafka")) as broker:
        yield broker


@pytest.fixture
def kafka_broker(running_broker: KafkaBroker) -> KafkaBroker:
    """The broker, up again if the test before has left it down."""
    running_broker.start()
    return running_broker


@pytest.fixture
def kafka_topic(kafka_broker: KafkaBroker) -> str:
    """A new topic of two partitions."""
    name = f"topic-{uuid.uuid4().hex[:12]}"
    kafka_broker.create_topic(name, partitions=2)
    return name
