"""Names in the manifest and in the chart's values, compared with the launcher and the images."""

from __future__ import annotations

import json
import re
from typing import Any

import yaml

from sessionizer.home.roots import control_root, data_root
from sessionizer_airflow.launching.kubernetes_manager import KubernetesManager
from support.places import REPOSITORY

DOCKER = REPOSITORY / "docker"
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


def test_the_values_are_short() -> None:
    assert len((DOCKER / "helm-values.yaml").read_text().splitlines()) <= 40


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
        prefix = f"spark.kubernetes.{part}.secretKeyRef."
        assert {
            name.removeprefix(prefix): value for name, value in spark_settings().items() if name.startswith(prefix)
        } == airflow


def test_the_images_are_of_one_release() -> None:
    (driver,) = re.findall(r":([\d.]+)$", spark_settings()["spark.kubernetes.container.image"])
    assert VALUES["images"]["airflow"]["tag"] == driver
