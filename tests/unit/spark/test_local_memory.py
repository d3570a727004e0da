"""Small pages and blocks are for one machine; a cluster keeps Spark's own."""

from __future__ import annotations

import pytest

from sessionizer.launch.local_jvm import SMALL_ARRAYS
from sessionizer.spark.session import local_memory


@pytest.mark.parametrize("master", ["local[*]", "local[2]", "local-cluster[2,1,1024]"])
def test_one_machine_gets_them(master: str) -> None:
    assert local_memory(master) == SMALL_ARRAYS


@pytest.mark.parametrize("master", ["spark://master:7077", "yarn", "k8s://https://kubernetes:6443"])
def test_a_cluster_does_not(master: str) -> None:
    assert local_memory(master) == {}
