"""The labels of key groups in the shuffle, by which Spark spreads the groups evenly.

Spark puts a row into the partition ``hash(grouping key) mod partitions``. If sixteen groups were labelled 0 to 15, one
of two partitions would get nine, and of eight partitions some would get four and some none. So the label of group g is
the smallest number whose hash is g modulo the number of groups. If the number of partitions divides the number of
groups, all partitions get the same number of groups.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Labels = NDArray[np.int32]

_SEED = np.uint32(42)
_BYTES = np.uint32(4)


def group_labels(groups: int) -> Labels:
    """Return the label of each group, by its number."""
    candidates = groups
    while True:
        candidates *= 4
        residues = np.mod(spark_hash(np.arange(candidates, dtype=np.int32)), groups)
        found, label = np.unique(residues, return_index=True)
        if len(found) == groups:
            return label.astype(np.int32)


def group_numbers(groups: int) -> dict[int, int]:
    """Return the number of each group, by its label."""
    return {label: number for number, label in enumerate(group_labels(groups).tolist())}


def spark_hash(numbers: Labels) -> Labels:
    """Return Spark's hash of an INT column: 32-bit MurmurHash3 of one word (``Murmur3_x86_32.hashInt``)."""
    mixed = _rotate(numbers.view(np.uint32) * np.uint32(0xCC9E2D51), 15) * np.uint32(0x1B873593)
    state = _rotate(mixed ^ _SEED, 13) * np.uint32(5) + np.uint32(0xE6546B64)
    state ^= _BYTES
    state = (state ^ (state >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    state = (state ^ (state >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    return (state ^ (state >> np.uint32(16))).view(np.int32)


def _rotate(words: NDArray[np.uint32], bits: int) -> NDArray[np.uint32]:
    return (words << np.uint32(bits)) | (words >> np.uint32(32 - bits))
