"""A real YARN: one ResourceManager and one NodeManager on loopback, in a folder of their own."""

import json
import os
import shutil
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]

from support.processes.hadoop_daemon import HadoopDaemon, HadoopService, write_settings
from support.processes.ports import free_addresses

SERVER = "org.apache.hadoop.yarn.server"
MEMORY_MB = 3072


class Yarn(HadoopService):
    """Starts on entering the context, on leaving it is killed with all it runs.

    ``folder`` gets settings, work and logs; ``core`` is a ``core-site.xml``: the file system of its applications.
    """

    def __init__(self, folder: Path, core: Path) -> None:
        self.folder = folder
        self.configuration = folder / "conf"
        """What ``HADOOP_CONF_DIR`` is set to by those who use it."""
        self.configuration.mkdir(parents=True)
        for file in core.parent.glob("*-site.xml"):
            shutil.copy(file, self.configuration)
        client, scheduler, tracker, admin, self.web, node, localizer, node_web = free_addresses(8)
        addresses = {
            "yarn.resourcemanager.address": client,
            "yarn.resourcemanager.scheduler.address": scheduler,
            "yarn.resourcemanager.resource-tracker.address": tracker,
            "yarn.resourcemanager.admin.address": admin,
            "yarn.resourcemanager.webapp.address": self.web,
            "yarn.nodemanager.address": node,
            "yarn.nodemanager.localizer.address": localizer,
            "yarn.nodemanager.webapp.address": node_web,
        }
        write_settings(self.configuration / "yarn-site.xml", addresses | self._settings())
        self.resource_manager = HadoopDaemon(f"{SERVER}.resourcemanager.ResourceManager", folder, self.configuration)
        self.node_manager = HadoopDaemon(
            f"{SERVER}.nodemanager.NodeManager", folder, self.configuration, {"JAVA_HOME": java_home()}
        )

    def start(self) -> None:
        """Start what is down, at the same place, and return when applications can be given containers."""
        self.resource_manager.start(self.is_active)
        self.node_manager.start(self.has_node)

    def kill(self) -> None:
        self.node_manager.kill()
        self.resource_manager.kill()
        for process in list(self.processes()):
            process.kill()

    def is_active(self) -> bool:
        """Whether the ResourceManager knows what it had before."""
        found: bool = self.asked("info").get("clusterInfo", {}).get("haState") == "ACTIVE"
        return found

    def has_node(self) -> bool:
        nodes = (self.asked("nodes").get("nodes") or {}).get("node", [])
        return [node["state"] for node in nodes] == ["RUNNING"]

    def asked(self, path: str) -> dict[str, Any]:
        """What the ResourceManager answers below ``/ws/v1/cluster``; empty while it does not."""
        try:
            with urllib.request.urlopen(f"http://{self.web}/ws/v1/cluster/{path}", timeout=5) as answer:
                found: dict[str, Any] = json.load(answer)
        except (OSError, urllib.error.URLError, ValueError):
            return {}
        return found

    def processes(self) -> Iterator[psutil.Process]:
        """The processes of its containers: YARN tells each where its folder is, and what it forks inherits that."""
        for process in psutil.process_iter():
            try:
                if process.environ().get("LOCAL_DIRS", "").startswith(str(self.folder)):
                    yield process
            except psutil.Error:
                continue

    def _settings(self) -> dict[str, str]:
        return {
            "yarn.nodemanager.local-dirs": f"{self.folder}/local",
            "yarn.nodemanager.log-dirs": f"{self.folder}/containers",
            "yarn.nodemanager.resource.memory-mb": str(MEMORY_MB),
            "yarn.nodemanager.resource.cpu-vcores": "8",
            "yarn.nodemanager.vmem-check-enabled": "false",
            "yarn.nodemanager.pmem-check-enabled": "false",
            "yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage": "99",
            "yarn.nodemanager.delete.debug-delay-sec": "3600",
            "yarn.scheduler.minimum-allocation-mb": "256",
            "yarn.resourcemanager.scheduler.class": f"{SERVER}.resourcemanager.scheduler.fifo.FifoScheduler",
            "yarn.resourcemanager.webapp.cross-origin.enabled": "false",
            # a NodeManager that is gone is noticed within seconds, not after ten minutes
            "yarn.nm.liveness-monitor.expiry-interval-ms": "15000",
            "yarn.am.liveness-monitor.expiry-interval-ms": "60000",
            # what runs outlives a ResourceManager that is away for a while; for a NodeManager the jars lack a store
            "yarn.resourcemanager.recovery.enabled": "true",
            "yarn.resourcemanager.store.class": f"{SERVER}.resourcemanager.recovery.FileSystemRMStateStore",
            "yarn.resourcemanager.fs.state-store.uri": f"file://{self.folder}/applications",
        }


def java_home() -> str:
    found = os.environ.get("JAVA_HOME")
    return found or str(Path(shutil.which("java") or "/usr/bin/java").resolve().parents[1])
