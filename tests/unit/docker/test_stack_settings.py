"""The settings of the stack in containers: what is wrong is named, and the example is right."""

from __future__ import annotations

import json
import re
from runpy import run_path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from sessionizer.stream_spec.loading.folder import find_stream
from support.places import REPOSITORY

if TYPE_CHECKING:
    from pathlib import Path

DOCKER = REPOSITORY / "docker"
EXAMPLE = (DOCKER / ".env.example").read_text()
PREPARE: dict[str, Any] = run_path(str(DOCKER / "prepare_stack.py"))


def problems(text: str) -> list[str]:
    found: list[str] = PREPARE["problems_in"](text)
    return found


def test_the_example_is_right() -> None:
    assert problems(EXAMPLE) == []


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("AIRFLOW_PORT=80", "AIRFLOW_PORT"), ("AIRFLOW_PORT=", "AIRFLOW_PORT"), ("DAGS=dags", "DAGS"),
        ("WORKER_MEMORY=2", "WORKER_MEMORY"), ("WORKER_CORES=0", "WORKER_CORES"), ("POSTGRES_IMAGE=", "POSTGRES_IMAGE"),
    ],
)  # fmt: skip
def test_a_wrong_value_is_named(line: str, named: str) -> None:
    text = re.sub(rf"^{named}=.*$", line, EXAMPLE, flags=re.MULTILINE)
    (found,) = problems(text)
    assert found.startswith(named)


def test_a_name_that_nothing_reads_and_one_that_is_missing_are_told() -> None:
    found = problems(EXAMPLE.replace("AIRFLOW_PORT=", "AIRFLOW_PROT="))
    assert [line.split(" ")[0] for line in found] == ["line", "AIRFLOW_PORT"]


def test_secrets_are_made_once_and_for_our_user_alone(tmp_path: Path) -> None:
    folder = tmp_path / "secrets"
    PREPARE["make_secrets"](folder)
    first = {file.name: file.read_text() for file in folder.iterdir()}
    PREPARE["make_secrets"](folder)
    assert {file.name: file.read_text() for file in folder.iterdir()} == first
    assert folder.stat().st_mode & 0o077 == 0
    assert json.loads(first["passwords.json"])["admin"]


def test_the_stack_names_each_setting_and_secret_that_there_is() -> None:
    text = (DOCKER / "compose.yaml").read_text()
    stack = yaml.safe_load(text)
    of_make = {"BASE_IMAGE", "GO_IMAGE", "COMPOSE_PROJECT_NAME"}
    assert set(re.findall(r"\$\{(\w+)\}", text)) | of_make == set(PREPARE["RULES"])
    assert set(stack["secrets"]) == set(PREPARE["SECRETS"])
    used = {secret for service in stack["services"].values() for secret in service.get("secrets", ())}
    assert used == set(PREPARE["SECRETS"])


def test_every_long_lived_part_has_a_health_check_and_no_port_is_open_to_others() -> None:
    services = yaml.safe_load((DOCKER / "compose.yaml").read_text())["services"]
    assert {name for name, each in services.items() if each["healthcheck"].get("disable")} == {"airflow-init"}
    ports = [port for each in services.values() for port in each.get("ports", ())]
    assert ports
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_the_stream_of_the_stack_is_that_of_the_demo_but_for_its_source() -> None:
    found = find_stream(DOCKER / "streams", "clicks").model_dump(exclude={"source"})
    assert found == find_stream(REPOSITORY / "dags" / "streams", "clicks").model_dump(exclude={"source"})


def stages() -> dict[str, str]:
    """The text of each stage of the Dockerfile, by its name."""
    parts = re.split(r"^FROM (\S+) AS (\S+)$", (DOCKER / "Dockerfile").read_text(), flags=re.MULTILINE)[1:]
    return {name: f"FROM {base}\n{text}" for base, name, text in zip(parts[::3], parts[1::3], parts[2::3], strict=True)}


@pytest.mark.parametrize("target", ["airflow", "driver", "postgres", "kafka", "s3"])
def test_no_image_runs_as_root(target: str) -> None:
    found, users = stages(), []
    while target in found:
        users += re.findall(r"^USER (\S+)$", found[target], re.MULTILINE)
        target = found[target].split(maxsplit=2)[1]
    assert users
    assert "root" not in users


def test_without_a_registry_each_image_is_a_target_of_the_dockerfile() -> None:
    switched = dict(re.findall(r"(\w+_IMAGE)=(\w+)", (DOCKER / "without-registry").read_text()))
    built = {name for name, target in switched.items() if target in stages()}
    assert built == {"POSTGRES_IMAGE", "KAFKA_IMAGE", "S3_IMAGE"}
    assert set(switched) - built == {"BASE_IMAGE", "GO_IMAGE"}
