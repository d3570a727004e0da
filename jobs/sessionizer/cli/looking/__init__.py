"""``sessionizer state`` and ``checkpoint``: what is in a state, without changing it."""
