"""The settings of the stack in containers: what is wrong is named, and the example is right."""

import json
import re
from pathlib import Path
from runpy import run_path
from typing import Any

import pytest
import yaml
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard

from sessionizer.control.records.driver_records import GAUGES
from sessionizer.home.roots import control_root, data_root
from sessionizer.stream_spec.spec_folder import find_stream
from sessionizer_airflow.launching.cluster import KubernetesManager
from sessionizer_airflow.metrics import COUNTERS
from support.places import REPOSITORY
from support.stores.metrics_collector import board_queries

DOCKER = REPOSITORY / "docker"
METRICS = "compose.metrics.yaml"
EXAMPLE = (DOCKER / ".env.example").read_text()
SPARK_DEFAULTS = (DOCKER / "spark-defaults.conf").read_text()
PREPARE: dict[str, Any] = run_path(str(DOCKER / "prepare_stack.py"))


def compose(name: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((DOCKER / name).read_text())
    return found


def problems(text: str) -> list[str]:
    found: list[str] = PREPARE["problems_in"](text)
    return found


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("AIRFLOW_PORT=80", "AIRFLOW_PORT"), ("AIRFLOW_PORT=", "AIRFLOW_PORT"), ("DAGS=dags", "DAGS"),
        ("WORKER_MEMORY=2", "WORKER_MEMORY"), ("WORKER_CORES=0", "WORKER_CORES"), ("WORKER_LIMIT=", "WORKER_LIMIT"),
        ("POSTGRES_IMAGE=", "POSTGRES_IMAGE"),
        ("COMPOSE_FILE=compose.metrics.yaml", "COMPOSE_FILE"),
    ],
)  # fmt: skip
def test_a_wrong_value_is_named(line: str, named: str) -> None:
    text = re.sub(rf"^{named}=.*$", line, EXAMPLE, flags=re.MULTILINE)
    (found,) = problems(text)
    assert found.startswith(named)


def test_a_name_that_nothing_reads_and_one_that_is_missing_are_told() -> None:
    assert problems(EXAMPLE) == []
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
    stack = compose("compose.yaml")
    text = "".join((DOCKER / name).read_text() for name in ("compose.yaml", METRICS))
    of_make = {"BASE_IMAGE", "GO_IMAGE", "COMPOSE_PROJECT_NAME", "COMPOSE_FILE"}
    assert set(re.findall(r"\$\{(\w+)\}", text)) | of_make == set(PREPARE["RULES"])
    assert set(stack["secrets"]) == set(PREPARE["SECRETS"])
    used = {secret for service in stack["services"].values() for secret in service.get("secrets", ())}
    assert used == set(PREPARE["SECRETS"])


def test_every_long_lived_part_has_a_health_check_and_none_may_take_the_machine_or_open_a_port() -> None:
    services = {**compose(METRICS)["services"], **compose("compose.yaml")["services"]}
    assert "prometheus" in services
    assert {name for name, each in services.items() if each["healthcheck"].get("disable")} == {"airflow-init"}
    ports = [port for each in services.values() for port in each.get("ports", ())]
    assert ports
    assert all(port.startswith("127.0.0.1:") for port in ports)
    for name, each in services.items():
        assert each["security_opt"] == ["no-new-privileges:true"], name
        assert each["mem_limit"], name
        assert each["pids_limit"], name
        assert {"max-size", "max-file"} <= set(each["logging"]["options"]), name


def test_metrics_add_prometheus_and_variables_of_airflow_alone() -> None:
    stack, more = compose("compose.yaml"), compose(METRICS)
    assert re.search(r"^COMPOSE_FILE=compose.yaml$", EXAMPLE, re.MULTILINE), "it is not in the default stack"
    assert set(more["services"]) - set(stack["services"]) == {"prometheus"}
    otlp = {
        "AIRFLOW__METRICS__OTEL_ON": "True",
        "OTEL_EXPORTER_OTLP_ENDPOINT": "http://prometheus:9090/api/v1/otlp",
        "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
    }
    senders = {name: each for name, each in more["services"].items() if name != "prometheus"}
    drivers = senders.pop("scheduler")
    assert drivers == {"environment": {**otlp, "SPARK_UI_ENABLED": "true"}}
    assert senders == {name: {"environment": otlp} for name in ("api-server", "dag-processor", "triggerer")}
    assert re.search(r"^spark.ui.enabled +\$\{env:SPARK_UI_ENABLED\}$", SPARK_DEFAULTS, re.MULTILINE)
    assert "SPARK_UI_ENABLED=false" in stages()["runtime"], "a driver has a UI only for Prometheus"


def test_prometheus_reads_the_drivers_where_the_stack_has_them() -> None:
    prometheus = compose(METRICS)["services"]["prometheus"]
    (command,) = prometheus["command"]
    given = dict(volume.split(":")[:2] for volume in prometheus["volumes"])
    assert given["./prometheus/prometheus.yaml"] == re.findall(r"^sed s/localhost:/scheduler:/g (\S+)", command)[0]
    (written,) = re.findall(r"--config.file=(\S+)", command)
    assert f">{written} " in command
    configuration = yaml.safe_load((DOCKER / "prometheus" / "prometheus.yaml").read_text())
    # relative to the file that was written
    assert [given[f"./prometheus/{name}"] for name in configuration["rule_files"]] == ["/tmp/rules.yaml"]  # noqa: S108
    (targets,) = [each["targets"] for job in configuration["scrape_configs"] for each in job["static_configs"]]
    assert all(target.startswith("localhost:") for target in targets)


def test_the_stream_of_the_stack_is_that_of_the_demo_but_for_its_source() -> None:
    found = find_stream(DOCKER / "streams", "clicks").model_dump(exclude={"source"})
    assert found == find_stream(REPOSITORY / "dags" / "streams", "clicks").model_dump(exclude={"source"})


def stages() -> dict[str, str]:
    parts = re.split(r"^FROM (\S+) AS (\S+)$", (DOCKER / "Dockerfile").read_text(), flags=re.MULTILINE)[1:]
    return {name: f"FROM {base}\n{text}" for base, name, text in zip(parts[::3], parts[1::3], parts[2::3], strict=True)}


@pytest.mark.parametrize("target", ["airflow", "driver", "postgres", "kafka", "s3", "prometheus"])
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
    assert built == {"POSTGRES_IMAGE", "KAFKA_IMAGE", "S3_IMAGE", "PROMETHEUS_IMAGE"}
    assert set(switched) - built == {"BASE_IMAGE", "GO_IMAGE"}


def test_each_image_is_named_by_its_digest() -> None:
    """A tag can be moved to another image."""
    named = dict(re.findall(r"^(\w+_IMAGE)=(?!streaming-state-)(\S+)$", EXAMPLE, re.MULTILINE))
    by_tag = {name for name, image in named.items() if not re.search(r":[\w.-]+@sha256:[0-9a-f]{64}$", image)}
    assert by_tag == set()
    written = dict(re.findall(r"^ARG (\w+)=(\S+:\S+)$", (DOCKER / "Dockerfile").read_text(), re.MULTILINE))
    assert written == {"BASE": named["BASE_IMAGE"], "GO_BASE": named["GO_IMAGE"]}


def test_the_images_have_the_versions_that_the_tests_run_with() -> None:
    pinned, ours = (
        dict(re.findall(r"^([\w.-]+(?:\[[\w,-]+\])?)==(\S+)", (folder / "requirements.lock").read_text(), re.MULTILINE))
        for folder in (DOCKER, REPOSITORY)
    )
    common = pinned.keys() & ours.keys()
    assert {name: ours[name] for name in common} == {name: pinned[name] for name in common}
    assert {"apache-airflow-providers-fab", "pyspark", "deltalake"} <= set(pinned)


BOARD = REPOSITORY / "docker" / "grafana" / "streams.json"
RULES = REPOSITORY / "docker" / "prometheus" / "rules.yaml"
OF_AIRFLOW = {
    f"airflow_sessionizer_{name}"
    for name in ("health", "health_timestamp_seconds", *GAUGES, *(f"{each}_total" for each in COUNTERS))
}
OF_SPARK = {"spark_streaming_latency", "spark_driver_JVMHeapMemory"}
"""What tests/e2e/test_metrics_and_lineage.py sees a driver show."""


def lost(given: Any, kept: Any, place: str = "") -> list[str]:
    """Find the fields that were dropped, by their places."""
    if isinstance(given, dict) and isinstance(kept, dict):
        return [name for key, value in given.items() for name in lost(value, kept.get(key), f"{place}.{key}")]
    if isinstance(given, list) and isinstance(kept, list) and len(given) == len(kept):
        return [name for index, each in enumerate(given) for name in lost(each, kept[index], f"{place}[{index}]")]
    return [] if given == kept else [place]


def test_grafana_knows_every_field_of_the_board() -> None:
    register_default_plugins()
    board = json.loads(BOARD.read_text())
    assert lost(board, json.loads(JSONEncoder().encode(Dashboard.from_json(board)))) == []
    board["panels"][0]["titel"] = "a field that it does not know"
    assert lost(board, json.loads(JSONEncoder().encode(Dashboard.from_json(board)))) == [".panels[0].titel"]


def test_every_query_is_over_metrics_that_exist_and_every_alert_says_what_to_do() -> None:
    rules = [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]
    queries = board_queries(json.loads(BOARD.read_text()))
    assert len(queries) == 14
    expressions = [*(rule["expr"] for rule in rules), *queries]
    named = {name for query in expressions for name in re.findall(r"\b(?:airflow|spark)_\w+", query)}
    assert OF_SPARK <= named <= OF_AIRFLOW | OF_SPARK
    alerts = [rule for rule in rules if "alert" in rule]
    assert {rule["alert"] for rule in alerts} == {"StreamUnwatched", "StreamDown", "StreamDegraded", "StreamLagging"}
    assert all(set(rule["annotations"]) == {"summary", "what_to_do"} for rule in alerts)


MANIFEST: list[dict[str, Any]] = list(yaml.safe_load_all((DOCKER / "kubernetes.yaml").read_text()))
VALUES: dict[str, Any] = yaml.safe_load((DOCKER / "helm-values.yaml").read_text())
DOCKERFILE = (DOCKER / "Dockerfile").read_text()
ENVIRONMENT = {each["name"]: each["value"] for each in VALUES["env"]}
NAMESPACE = "streams"
MOUNTS = {each["name"]: each["mountPath"] for each in VALUES["volumeMounts"]}


def one(kind: str) -> dict[str, Any]:
    (found,) = [each for each in MANIFEST if each["kind"] == kind]
    return found


def spark_settings() -> dict[str, str]:
    lines = one("ConfigMap")["data"]["spark-defaults.conf"].splitlines()
    return dict(line.split(maxsplit=1) for line in lines)


def test_drivers_are_sent_as_pods_into_the_namespace_of_the_manifest() -> None:
    connection = json.loads(ENVIRONMENT["AIRFLOW_CONN_SPARK_DEFAULT"])
    assert connection["conn_type"] == "spark"
    assert connection["host"].startswith("k8s://https://")
    assert connection["extra"] == {"deploy-mode": "cluster", "namespace": NAMESPACE}
    assert one("Namespace")["metadata"]["name"] == NAMESPACE
    assert {each["metadata"]["namespace"] for each in MANIFEST if each["kind"] != "Namespace"} == {NAMESPACE}


def test_the_account_of_drivers_and_those_of_airflow_may_work_with_pods() -> None:
    binding, role = one("RoleBinding"), one("Role")
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    driver = one("ServiceAccount")["metadata"]["name"]
    assert spark_settings()["spark.kubernetes.authenticate.driver.serviceAccountName"] == driver
    # the scheduler submits and ends drivers, the triggerer asks for them
    assert {each["name"] for each in binding["subjects"]} == {driver, "airflow-scheduler", "airflow-triggerer"}
    assert {each["namespace"] for each in binding["subjects"]} == {NAMESPACE}
    (rule,) = role["rules"]
    assert {"pods", "services", "configmaps"} <= set(rule["resources"])
    assert {"create", "get", "list", "watch", "delete", "deletecollection"} <= set(rule["verbs"])


def test_each_file_that_spark_is_told_of_is_in_the_map_and_mounted_where_spark_looks() -> None:
    there = one("ConfigMap")
    folder = MOUNTS[there["metadata"]["name"]]
    assert f"SPARK_CONF_DIR={folder} " in DOCKERFILE
    templates = [value for name, value in spark_settings().items() if name.endswith("podTemplateFile")]
    assert {f"{folder}/{name}" for name in there["data"]} == {f"{folder}/spark-defaults.conf", *templates}


def test_pods_are_not_root_and_drivers_see_the_specs_where_airflow_does() -> None:
    templates = {name: yaml.safe_load(one("ConfigMap")["data"][f"{name}.yaml"]) for name in ("driver", "executor")}
    for name, pod in templates.items():
        assert pod["spec"]["containers"][0]["name"] == name
        assert pod["spec"]["securityContext"] == {"runAsNonRoot": True, "runAsUser": VALUES["uid"], "runAsGroup": 0}
        assert f"USER {VALUES['uid']}:{VALUES['gid']}" in DOCKERFILE
    (mount,) = templates["driver"]["spec"]["containers"][0]["volumeMounts"]
    assert mount["mountPath"] == MOUNTS["streams"] == f"{MOUNTS['dags']}/streams"
    assert f"AIRFLOW__CORE__DAGS_FOLDER={MOUNTS['dags']} " in DOCKERFILE
    assert f"AIRFLOW_HOME={VALUES['airflowHome']} " in DOCKERFILE


def test_nothing_of_a_pod_is_said_that_the_launcher_says() -> None:
    ours = set(KubernetesManager("k8s://x", NAMESPACE).settings(f"{NAMESPACE}:sessionizer-1"))
    assert ours.isdisjoint(spark_settings())


def test_the_roots_are_stores_that_need_no_folder_in_common(tmp_path: Any) -> None:
    assert "://" in str(control_root(tmp_path, ENVIRONMENT["SESSIONIZER_CONTROL"]))
    assert data_root(ENVIRONMENT["SESSIONIZER_DATA"], tmp_path) is not None
    settings = (REPOSITORY / "docs" / "settings.md").read_text()
    assert all(f"`{name}`" in settings for name in ENVIRONMENT if name.startswith("SESSIONIZER_"))


def test_driver_and_executors_get_the_secrets_that_airflow_has() -> None:
    airflow = {each["envName"]: f"{each['secretName']}:{each['secretKey']}" for each in VALUES["secret"]}
    for part in ("driver", "executor"):
        prefix, settings = f"spark.kubernetes.{part}.secretKeyRef.", spark_settings()
        ours = {name.removeprefix(prefix): value for name, value in settings.items() if name.startswith(prefix)}
        assert ours == airflow


def test_the_images_are_of_one_release_and_the_values_are_short() -> None:
    (driver,) = re.findall(r":([\d.]+)$", spark_settings()["spark.kubernetes.container.image"])
    assert VALUES["images"]["airflow"]["tag"] == driver
    assert len((DOCKER / "helm-values.yaml").read_text().splitlines()) <= 40
