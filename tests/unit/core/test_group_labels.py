"""Labels of key groups: one each, and the hash that they rest on is Spark's."""

from __future__ import annotations

import numpy as np
import pytest

from sessionizer.core.wire.schema import group_labels, spark_hash


def test_the_hash_is_that_of_spark() -> None:
    """As `select hash(0), hash(1), hash(-1), hash(2147483647)` prints them."""
    numbers = np.array([0, 1, -1, 2**31 - 1], np.int32)
    assert spark_hash(numbers).tolist() == [933_211_791, -559_580_957, -1_604_776_387, 133_916_647]


@pytest.mark.parametrize("groups", [1, 2, 3, 16, 1000, 32_768])
def test_each_group_has_a_label_of_its_own_and_any_divisor_of_them_gets_as_many(groups: int) -> None:
    labels = group_labels(groups)
    assert len(set(labels.tolist())) == len(labels) == groups
    for partitions in (count for count in (1, 2, 3, 4, 8, 16, 250) if groups % count == 0):
        counts = np.bincount(np.mod(spark_hash(labels), partitions), minlength=partitions)
        assert counts.tolist() == [groups // partitions] * partitions
