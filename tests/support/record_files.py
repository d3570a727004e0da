"""All files of records that the product declares, found by a walk through its modules: none can be forgotten."""

import importlib
import pkgutil
import sys
from typing import TypeVar

import sessionizer

File = TypeVar("File")


def record_files(kind: type[File]) -> list[File]:
    """Every ``ControlFile`` or ``LineageFile`` in the rooms below Spark, each once."""
    for room in ("home", "control", "lineage", "state"):
        package = importlib.import_module(f"{sessionizer.__name__}.{room}")
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(found.name)
    modules = [module for name, module in sorted(sys.modules.items()) if name.startswith(f"{sessionizer.__name__}.")]
    found_files = (value for module in modules for value in vars(module).values() if isinstance(value, kind))
    return list({id(file): file for file in found_files}.values())
