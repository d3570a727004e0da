"""``python -m sessionizer_demo``: runs until Ctrl-C, and leaves no process behind."""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path

import typer

from sessionizer.errors import SessionizerError
from sessionizer_demo.local_airflow.installation import POOLS, Installation
from sessionizer_demo.places import REPOSITORY
from sessionizer_demo.show.lock import sole_demo
from sessionizer_demo.show.show import Show


def main() -> int:
    """Run the demo and return the exit code."""
    arguments = _parse()
    root: Path = arguments.root.absolute()
    for ending in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ending, signal.default_int_handler)
    try:
        with sole_demo(root):
            Show(
                installation=Installation(root=root, settings=POOLS),
                stream=arguments.stream,
                rate=arguments.rate,
            ).run()
    except SessionizerError as error:
        typer.echo(f"error: {error}", err=True)
        return error.exit_code
    return 0


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make demo", description=__doc__)
    parser.add_argument("--root", type=Path, default=REPOSITORY / ".demo", help="where everything is kept")
    parser.add_argument("--stream", default="clicks", choices=["clicks", "access_log"], help="the stream that is shown")
    parser.add_argument("--rate", type=float, default=50.0, help="events per second, on average")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
