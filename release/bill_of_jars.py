"""Adds the jars of drivers to a bill of materials (CycloneDX): ``bill_of_jars.py jars.xml sbom.json``."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

_JAR = re.compile(r'<dependency org="([^"]+)" name="([^"]+)" rev="([^"]+)"')


def components(listed: str) -> list[dict[str, Any]]:
    """Return a component for each jar of the Ivy file ``listed``."""
    found = []
    for group, name, version in _JAR.findall(listed):
        purl = f"pkg:maven/{group}/{name}@{version}?type=jar"
        found.append(
            {"type": "library", "bom-ref": purl, "group": group, "name": name, "version": version, "purl": purl}
        )
    return found


def main() -> None:
    """Rewrite the bill, with the jars of earlier runs replaced."""
    listed, bill = Path(sys.argv[1]), Path(sys.argv[2])
    content = json.loads(bill.read_text())
    packages = [each for each in content["components"] if not each.get("purl", "").startswith("pkg:maven/")]
    content["components"] = packages + components(listed.read_text())
    bill.write_text(json.dumps(content, indent=1))


if __name__ == "__main__":
    main()
