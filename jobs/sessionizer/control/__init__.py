"""The control directory of a stream: who drives it, how it fares, what is wanted."""
