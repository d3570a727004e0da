"""Makes machines of one: what YARN starts finds itself on a host of its own, where some folders are empty.

A container runs the ``java`` below the JAVA_HOME that it is given. Ours enters name spaces of Linux first (host name,
mounts), which all that it forks inherits, Python too. That takes root.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from support.processes.yarn import java_home

ENTER = """\
#!/bin/sh
exec unshare --mount --uts sh -c '
  hostname {host}
  for hidden in {hidden}; do mount -t tmpfs -o ro,size=4k tmpfs "$hidden" || exit 70; done
  exec {java} "$@"
' java "$@"
"""


@dataclass(frozen=True)
class Machine:
    host: str
    hidden: tuple[Path, ...] = ()

    def java_home(self, folder: Path) -> Path:
        home = folder / self.host
        program = home / "bin" / "java"
        program.parent.mkdir(parents=True)
        hidden = " ".join(f'"{path}"' for path in self.hidden)
        program.write_text(ENTER.format(host=self.host, hidden=hidden, java=f"{java_home()}/bin/java"))
        program.chmod(0o755)
        return home


def write_spark_defaults(folder: Path, settings: Mapping[str, str]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    lines = [f"{name}  {value}\n" for name, value in settings.items()]
    (folder / "spark-defaults.conf").write_text("".join(lines))
    return folder
