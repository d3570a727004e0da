"""Completes a bill of materials (CycloneDX) with the jars of drivers, and lists it for people.

``bill.py jars.xml sbom.json THIRD_PARTY.md``
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any, Final

OURS: Final = "streaming-state"
OF_JARS: Final = {"org.postgresql": "BSD-2-Clause", "org.reactivestreams": "MIT-0"}
"""Licences of jars by their group. All others are Apache-2.0."""
OF_PACKAGES: Final = {"hdfs-native": "Apache-2.0", "protobuf": "BSD-3-Clause"}
"""Licences of packages whose metadata name none that the bill knows."""
ABOUT: Final = """# Third-party software

The wheel contains no file of other projects. These are the packages of
`streaming-state[airflow,driver,kafka,s3,gcs,azure,hdfs,openlineage]`, in the versions of `requirements.lock`, and the
jars that `sessionizer jars fetch` fetches. Written by `make sbom`.

| name | version | licence |
|---|---|---|
"""
_JAR: Final = re.compile(r'<dependency org="([^"]+)" name="([^"]+)" rev="([^"]+)"')


def jar_components(listed: str) -> list[dict[str, Any]]:
    """Return a component for each jar of the Ivy file ``listed``."""
    found = []
    for group, name, version in _JAR.findall(listed):
        purl = f"pkg:maven/{group}/{name}@{version}?type=jar"
        found.append(
            {
                "type": "library",
                "bom-ref": purl,
                "group": group,
                "name": name,
                "version": version,
                "purl": purl,
                "licenses": [{"license": {"id": OF_JARS.get(group, "Apache-2.0")}}],
            }
        )
    return found


def licence_of(component: dict[str, Any]) -> str:
    """Return the licence of a component in a few words."""
    for each in component.get("licenses", ()):
        licence = each.get("license", {})
        named = each.get("expression") or licence.get("id") or licence.get("name", "")
        if named:
            return str(named).removeprefix("License :: OSI Approved :: ").splitlines()[0]
    return OF_PACKAGES.get(component["name"], "see its own files")


def table(components: list[dict[str, Any]]) -> str:
    """Return the page with a row for each component."""
    others = sorted((each for each in components if each["name"] != OURS), key=lambda each: each["name"].lower())
    rows = [f"| {each['name']} | {each['version']} | {licence_of(each)} |" for each in others]
    return ABOUT + "\n".join(rows) + "\n"


def main() -> None:
    """Rewrite the bill, with the jars of earlier runs replaced, and the page."""
    listed, bill, page = map(Path, sys.argv[1:])
    content = json.loads(bill.read_text())
    packages = [each for each in content["components"] if not each.get("purl", "").startswith("pkg:maven/")]
    content["components"] = packages + jar_components(listed.read_text())
    bill.write_text(json.dumps(content, indent=1))
    page.write_text(table(content["components"]))


if __name__ == "__main__":
    main()
