"""What no watch can tell of itself: drivers without a spec, streams that nobody watches."""
