"""What key groups are called in the shuffle, so that Spark spreads them evenly.

Spark puts a row into the partition that the hash of its grouping key leaves modulo the partitions. Of sixteen groups
called 0 to 15 nine fall into one of two partitions, and of eight partitions some get four and some none. Here group g
is called by the smallest number whose hash leaves g modulo the number of groups: whatever number of partitions divides
that of the groups, each gets as many.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Labels = NDArray[np.int32]

_SEED = np.uint32(42)
_BYTES = np.uint32(4)


def group_labels(groups: int) -> Labels:
    """The label of each group, by its number."""
    candidates = groups
    while True:
        candidates *= 4
        residues = np.mod(spark_hash(np.arange(candidates, dtype=np.int32)), groups)
        found, label = np.unique(residues, return_index=True)
        if len(found) == groups:
            return label.astype(np.int32)


def group_numbers(groups: int) -> dict[int, int]:
    """The number of each group, by its label."""
    return {label: number for number, label in enumerate(group_labels(groups).tolist())}


def spark_hash(numbers: Labels) -> Labels:
    """Spark's hash of an INT column: 32-bit MurmurHash3 of one word (``Murmur3_x86_32.hashInt``)."""
    mixed = _rotated(numbers.view(np.uint32) * np.uint32(0xCC9E2D51), 15) * np.uint32(0x1B873593)
    state = _rotated(mixed ^ _SEED, 13) * np.uint32(5) + np.uint32(0xE6546B64)
    state ^= _BYTES
    state = (state ^ (state >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    state = (state ^ (state >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    return (state ^ (state >> np.uint32(16))).view(np.int32)


def _rotated(words: NDArray[np.uint32], bits: int) -> NDArray[np.uint32]:
    return (words << np.uint32(bits)) | (words >> np.uint32(32 - bits))
