"""What the tests of specs share."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from sessionizer.errors import InvalidSpec
from sessionizer.stream_spec.spec_folder import load_stream
from support.faults.bad_clicks import changed


@pytest.fixture
def refused(tmp_path: Path) -> Callable[[dict[str, Any]], InvalidSpec]:
    """Return a function that changes the good spec, reads it from a file and returns the error."""

    def refuse(changes: dict[str, Any]) -> InvalidSpec:
        file = tmp_path / "visits.yaml"
        file.write_text(yaml.safe_dump(changed(changes), sort_keys=False))
        with pytest.raises(InvalidSpec) as caught:
            load_stream(file)
        assert caught.value.file == file
        return caught.value

    return refuse
