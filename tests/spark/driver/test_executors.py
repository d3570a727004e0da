"""Executors that cannot do a stream's work are told before there is a lineage; those that can are let be."""

from __future__ import annotations

import os
import venv
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sessionizer.errors import ExecutorsUnfit
from sessionizer.spark.driver import executors
from sessionizer.spark.driver.executors import require_fit_executors

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_executors_like_ours_leave_nothing_behind(spark: SparkSession, tmp_path: Path) -> None:
    require_fit_executors(spark, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_python_without_packages_is_told(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    venv.create(tmp_path / "bare")
    monkeypatch.setattr(spark.sparkContext, "pythonExec", str(tmp_path / "bare" / "bin" / "python"))
    with pytest.raises(ExecutorsUnfit) as raised:
        require_fit_executors(spark, tmp_path)
    assert [package for package in executors.NEEDED if package in raised.value.cause] == ["pyarrow", "pandas", "numpy"]


def test_an_executor_is_named_with_all_that_it_lacks(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executors, "NEEDED", ("pyarrow", "no_such_package", "no.such.child"))
    with pytest.raises(ExecutorsUnfit, match=r"lacks no_such_package, no\.such\.child$") as raised:
        require_fit_executors(spark, tmp_path)
    assert raised.value.host == os.uname().nodename


def test_a_python_that_is_not_there_is_told(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark.sparkContext, "pythonExec", "/nowhere/python")
    with pytest.raises(ExecutorsUnfit, match="no program /nowhere/python"):
        require_fit_executors(spark, tmp_path)


def test_another_python_is_told(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark.sparkContext, "pythonVer", "3.9")
    with pytest.raises(ExecutorsUnfit, match=r"their Python is 3\.11, the driver's is 3\.11"):
        require_fit_executors(spark, tmp_path)


def test_a_folder_that_cannot_be_written_is_told(spark: SparkSession) -> None:
    with pytest.raises(ExecutorsUnfit, match="Mkdirs failed"):
        require_fit_executors(spark, Path("/proc/nothing"))
