"""Addresses of YARN's ResourceManager in Hadoop's own configuration."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final
from xml.etree import ElementTree

if TYPE_CHECKING:
    from collections.abc import Mapping

FOLDERS: Final = ("YARN_CONF_DIR", "HADOOP_CONF_DIR")
"""Environment variables that name the folder of a cluster's configuration, as spark-submit reads them."""
FILE: Final = "yarn-site.xml"
PREFIX: Final = "yarn.resourcemanager"
REFERENCE: Final = re.compile(r"\$\{([\w.-]+)\}")
NESTED: Final = 20
"""Largest depth of references between values. Hadoop gives up there, too."""


def yarn_settings(environment: Mapping[str, str]) -> dict[str, str] | None:
    """Read ``yarn-site.xml``. Return None if no variable leads to a readable one."""
    for variable in FOLDERS:
        folder = environment.get(variable)
        if folder:
            try:
                return read_settings((Path(folder) / FILE).read_text())
            except (OSError, ElementTree.ParseError):
                return None
    return None


def read_settings(text: str) -> dict[str, str]:
    """Return the properties of a ``…-site.xml``. Files that it includes are not read. Raises ParseError."""
    properties = ElementTree.fromstring(text).iter("property")  # noqa: S314 - the site's own configuration
    return {
        name.strip(): (entry.findtext("value") or "").strip()
        for entry in properties
        if (name := entry.findtext("name")) is not None
    }


def web_addresses(settings: Mapping[str, str]) -> tuple[str, ...]:
    """Return the URLs at which the ResourceManager answers.

    For a highly available ResourceManager these are all of them, because any may be active.
    """
    secure = settings.get("yarn.http.policy") == "HTTPS_ONLY"
    scheme, name, port = ("https", "webapp.https.address", 8090) if secure else ("http", "webapp.address", 8088)
    suffixes = [""]
    if settings.get(f"{PREFIX}.ha.enabled") == "true":
        suffixes = [f".{one.strip()}" for one in settings.get(f"{PREFIX}.ha.rm-ids", "").split(",") if one.strip()]
    return tuple(f"{scheme}://{_address(settings, name, port, suffix)}" for suffix in suffixes)


def _address(settings: Mapping[str, str], name: str, port: int, suffix: str) -> str:
    said = resolve_setting(settings, f"{PREFIX}.{name}{suffix}")
    if said is not None:
        return said
    return f"{resolve_setting(settings, f'{PREFIX}.hostname{suffix}') or '0.0.0.0'}:{port}"  # noqa: S104 - Hadoop's default


def resolve_setting(settings: Mapping[str, str], name: str) -> str | None:
    """Return the value of a property, with the values of other properties for its references ``${name}``."""
    value = settings.get(name)
    for _ in range(NESTED):
        if value is None or not REFERENCE.search(value):
            break
        value = REFERENCE.sub(lambda found: settings.get(found[1], found[0]), value)
    return value or None
