"""The command line."""

import signal

DECIDES_NO_ROW = "it parses options and prints"


def main() -> None:
    """Run the command line. Ctrl-C ends it without a traceback also while its modules are imported."""
    handler = signal.getsignal(signal.SIGINT)
    if handler is signal.default_int_handler:  # not for a job of the background, which ignores it
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from sessionizer.cli.app import run_app  # noqa: PLC0415  takes most of a second

    signal.signal(signal.SIGINT, handler)
    run_app()
