"""The wheel that `pip install` gets: its files, its requirements, its entry points."""

import json
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Callable
from configparser import ConfigParser
from email.message import Message
from email.parser import Parser
from pathlib import Path
from runpy import run_path

import pytest
from packaging.requirements import Requirement

import sessionizer
from sessionizer.errors import JarsNotFetched
from sessionizer.launch.jars import fetch_jars, jar_names
from support.places import REPOSITORY
from support.releases.cut_release import MADE_BY, RELEASES, require_tagged

DATA = {
    "sessionizer/launch/jars.xml", "sessionizer/launch/jars.sha256", "sessionizer/py.typed",
    "sessionizer/spark/log4j2.properties",
    "sessionizer_airflow/py.typed",
}  # fmt: skip
HEAVY = {"pyspark", "pyspark-client", "delta-spark", "pyarrow", "pandas", "numpy", "confluent-kafka", "hdfs-native"}


def build(folder: Path, place: str = "") -> zipfile.ZipFile:
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    environment = {**os.environ, "REPOSITORY_URL": place}
    subprocess.run(command, cwd=REPOSITORY, check=True, capture_output=True, timeout=120, env=environment)
    (built,) = folder.glob("*.whl")
    return zipfile.ZipFile(built)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    return build(tmp_path_factory.mktemp("dist"))


def metadata(wheel: zipfile.ZipFile, name: str) -> str:
    (found,) = (each for each in wheel.namelist() if each.endswith(f".dist-info/{name}"))
    return wheel.read(found).decode()


@pytest.fixture
def headers(wheel: zipfile.ZipFile) -> Message:
    return Parser().parsestr(metadata(wheel, "METADATA"))


def test_it_has_each_module_of_the_product_and_the_feed_of_the_demo(wheel: zipfile.ZipFile) -> None:
    found = {name for name in wheel.namelist() if ".dist-info/" not in name}
    sources = {
        file.relative_to(REPOSITORY / root).as_posix()
        for root, package in (
            ("jobs", "sessionizer"), ("plugins", "sessionizer_airflow"), ("demo", "sessionizer_demo/feed")
        )
        for file in (REPOSITORY / root / package).rglob("*.py")
    }  # fmt: skip
    assert found >= sources | DATA
    kinds = {Path(name).suffix for name in found - sources - DATA}
    assert kinds <= {".py", ".css", ".js", ".svg", ".html", ".json", ""}
    assert {name.split("/")[0] for name in found} == {"sessionizer", "sessionizer_airflow", "sessionizer_demo"}


def test_the_version_is_that_of_the_package(headers: Message) -> None:
    assert headers["Name"] == "streaming-state"
    assert headers["Version"] == sessionizer.__version__
    assert headers["License-Expression"] == "Apache-2.0"


LINK = re.compile(r"!?\[[^\]]*\]\(([^)]+)\)")


def test_the_page_of_an_index_has_no_link_to_a_file_beside_it(headers: Message, tmp_path: Path) -> None:
    words = str(headers.get_payload())
    assert "Streaming state" in words
    assert [link for link in LINK.findall(words) if "://" not in link] == []
    assert "Compared with" in words, "the words of a link stay"
    assert headers["Author"]
    place, tag = "https://github.com/owner/name", f"v{sessionizer.__version__}"
    published = Parser().parsestr(metadata(build(tmp_path, place), "METADATA"))
    links = set(LINK.findall(str(published.get_payload())))
    assert {f"{place}/blob/{tag}/docs/README.md", f"{place}/raw/{tag}/docs/state.svg"} <= links
    assert all((REPOSITORY / link.partition(f"/{tag}/")[2].partition("#")[0]).is_file() for link in links)
    urls = dict(each.split(", ") for each in published.get_all("Project-URL") or ())
    assert {"Source", "Documentation", "Changelog", "Issues"} == set(urls)
    assert all(url.startswith(place) for url in urls.values())


def test_the_notes_of_a_release_are_its_section_of_the_changelog() -> None:
    notes_of = run_path(str(REPOSITORY / "release" / "notes.py"))["notes_of"]
    text = "# Changelog\n\n## Unreleased\n\n## 0.3.0 (2026-12-01)\n\n### Fixed\n\n- a\n\n## 0.2.0\n\n- b\n"
    assert notes_of(text, "0.3.0") == "### Fixed\n\n- a\n"
    assert notes_of(text, "0.2.0") == "- b\n"
    for missing in ("0.3", "Unreleased"):
        with pytest.raises(SystemExit, match=missing):
            notes_of(text, missing)
    assert notes_of((REPOSITORY / "CHANGELOG.md").read_text(), "0.2.0")


def test_airflow_brings_no_spark_and_a_driver_no_airflow(headers: Message) -> None:
    requirements = [Requirement(each) for each in headers.get_all("Requires-Dist") or ()]

    def of_extra(name: str) -> set[str]:
        found = (each for each in requirements if bool(each.marker) == bool(name))
        return {each.name for each in found if not each.marker or each.marker.evaluate({"extra": name})}

    base, airflow, driver = of_extra(""), of_extra("airflow"), of_extra("driver")
    assert airflow == {"apache-airflow", "apache-airflow-providers-apache-spark"}
    assert not (base | airflow) & HEAVY
    assert {"pyspark", "pyspark-client", "delta-spark", "pyarrow"} <= driver
    assert not any(name.startswith("apache-airflow") for name in base | driver)
    extras = {"airflow", "driver", "kafka", "lookup", "openlineage", "s3", "gcs", "azure", "hdfs", "demo"}
    assert set(headers.get_all("Provides-Extra") or ()) == extras


def test_no_requirement_is_one_version_only(headers: Message) -> None:
    """An exact pin would up- or downgrade what people have. Those are in requirements.lock."""
    requirements = [Requirement(each) for each in headers.get_all("Requires-Dist") or ()]
    assert [str(each) for each in requirements if "==" in str(each.specifier)] == []


def test_airflow_and_the_shell_find_it(wheel: zipfile.ZipFile) -> None:
    found = ConfigParser()
    found.read_string(metadata(wheel, "entry_points.txt"))
    assert {name: dict(found[name]) for name in found.sections()} == {
        "console_scripts": {
            "sessionizer": "sessionizer.cli:main", "sessionizer-feed": "sessionizer_demo.feed.__main__:main"
        },
        "airflow.plugins": {"sessionizer": "sessionizer_airflow.plugin:SessionizerPlugin"},
        "apache_airflow_provider": {"provider_info": "sessionizer_airflow:provider_info"},
    }  # fmt: skip


def test_it_has_its_licence(wheel: zipfile.ZipFile) -> None:
    assert "Apache License" in metadata(wheel, "licenses/LICENSE")
    assert "pyspark" in metadata(wheel, "licenses/THIRD_PARTY.md")


@pytest.fixture
def repository(tmp_path: Path) -> Callable[..., str]:
    """A repository of one commit, in which ``git`` can be asked."""

    def git(*words: str) -> str:
        who = ["-c", "user.name=a", "-c", "user.email=a@example.com"]
        done = subprocess.run(["git", "-C", str(tmp_path), *who, *words], capture_output=True, text=True, check=True)
        return done.stdout.strip()

    git("init", "--quiet")
    (tmp_path / "code.py").write_text("STEP = 1\n")
    git("add", ".")
    git("commit", "--quiet", "-m", "one")
    return git


def test_a_release_is_cut_from_its_tag_only(tmp_path: Path, repository: Callable[..., str]) -> None:
    git = repository
    for version, refused in (("0.3.0.dev0", "is no release"), ("0.3.0", "there is no tag v0.3.0")):
        with pytest.raises(SystemExit, match=refused):
            require_tagged(tmp_path, version)
    git("tag", "-a", "v0.3.0", "-m", "v0.3.0")
    assert require_tagged(tmp_path, "0.3.0") == git("rev-parse", "HEAD")
    (tmp_path / "code.py").write_text("STEP = 2\n")
    with pytest.raises(SystemExit, match="files differ from the commit"):
        require_tagged(tmp_path, "0.3.0")
    git("commit", "--quiet", "-am", "two")
    with pytest.raises(SystemExit, match=r"is checked out\. Check out v0\.3\.0"):
        require_tagged(tmp_path, "0.3.0")


def test_the_record_of_a_release_names_the_commit_of_its_tag() -> None:
    """A clone may lack the tags."""
    for record in (json.loads(file.read_text()) for file in RELEASES.glob(f"*/{MADE_BY}")):
        asked = ["git", "-C", str(REPOSITORY), "rev-parse", "--verify", "--quiet", f"v{record['version']}^{{commit}}"]
        tagged = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()
        assert tagged in {"", record["commit"]}


IVY = """#!/bin/sh
for last; do case $last in */\\[artifact\\]*) to=${{last%/*}} ;; esac; done
for name in {names}; do echo other >"$to/$name"; done
"""


def test_jars_with_other_content_never_get_their_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java = tmp_path / "java" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(IVY.format(names=" ".join(jar_names())))
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "java"))
    with pytest.raises(JarsNotFetched, match="SHA-256"):
        fetch_jars(tmp_path / "jars")
    assert list((tmp_path / "jars").iterdir()) == []
