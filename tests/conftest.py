"""What every test may rely on: an Airflow that touches nothing outside a temporary folder, and golden files."""

import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from support.fixtures.order import Division, sort_for_workers

# Airflow reads these when it is imported, which is when a test module is.
_AIRFLOW_HOME = tempfile.mkdtemp(prefix="airflow-of-tests-")
os.environ["AIRFLOW_HOME"] = _AIRFLOW_HOME
os.environ["AIRFLOW__CORE__LOAD_EXAMPLES"] = "False"
# Processes that tests start import the same packages, and find the same commands, as the tests.
_ROOT = Path(__file__).parents[1]
os.environ["PYTHONPATH"] = os.pathsep.join(str(_ROOT / source) for source in ("jobs", "plugins", "demo", "tests"))
os.environ["SESSIONIZER_JARS"] = str(_ROOT / ".jars" / "spark")
os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])

# a real Kafka broker, a real HDFS, a disk that can be filled, a made-up platform, supervisors of scripted drivers,
# reviewed sentences
pytest_plugins = [
    "support.processes.hadoop",
    "support.processes.kafka_broker",
    "support.stores.control_fixtures",
    "support.faults.small_disk",
    "support.fixtures.platform",
    "support.fixtures.supervisor",
    "support.fixtures.reviewed",
]

# a limit for each example would be a timing in a test: it breaks where the machine is busy
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

GOLDEN = Path(__file__).parent / "golden"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the one flag that rewrites all golden files: look at the difference before you commit it."""
    parser.addoption("--rewrite-golden", action="store_true", help="write the golden files anew instead of comparing")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Hand long files out first, whichever folder they are in."""
    folder = Path(__file__).parent
    files = {item: item.path.relative_to(folder).as_posix() for item in items if item.path.is_relative_to(folder)}
    places = {file: place for place, file in enumerate(sort_for_workers(files.values()))}
    items.sort(key=lambda item: places[files[item]] if item in files else -1)


@pytest.hookimpl(tryfirst=True, optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Division | None:
    """Divide the tests among the workers of `make test`. Other runs keep the division that they ask for."""
    return Division(config, log) if config.getvalue("dist") == "loadfile" else None


def pytest_unconfigure() -> None:
    shutil.rmtree(_AIRFLOW_HOME, ignore_errors=True)


@pytest.fixture
def tuned(monkeypatch: pytest.MonkeyPatch) -> None:
    """For what only the private ways of Spark and Delta do: as it is by default, also where all tests are run plain."""
    monkeypatch.setenv("SESSIONIZER_PLAIN_SPARK", "0")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Compare a text with the golden file of a name (relative to tests/golden)."""

    def compare(name: str, text: str) -> None:
        file = GOLDEN / name
        if request.config.getoption("--rewrite-golden"):
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        assert file.exists(), f"no golden file {name}: run pytest with --rewrite-golden"
        assert text == file.read_text(), f"differs from tests/golden/{name}; if meant, run pytest with --rewrite-golden"

    return compare
