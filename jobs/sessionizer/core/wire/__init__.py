"""How events are laid out in Arrow while they travel and wait."""
