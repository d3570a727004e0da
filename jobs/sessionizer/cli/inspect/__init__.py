"""``sessionizer state`` and ``checkpoint``: the content of a state, without changing it."""
