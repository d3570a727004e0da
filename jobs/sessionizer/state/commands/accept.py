"""Option by which a user accepts differences of an upgrade by name."""

from __future__ import annotations

from typing import Any

from sessionizer.state.commands.command import option


def accept_option() -> Any:  # noqa: ANN401  a field
    """Declare the acceptance of differences."""
    return option(
        "--accept",
        "Accept",
        "name of a difference that open sessions lack something by, or that is not judged. Repeat it for each",
        default=(),
    )
