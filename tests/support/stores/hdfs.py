"""A real HDFS: one NameNode and one DataNode on loopback, in a folder of their own."""

import json
import urllib.error
import urllib.request
from pathlib import Path

from support.processes.hadoop_daemon import HadoopDaemon, HadoopService, write_settings
from support.processes.ports import free_addresses

SERVER = "org.apache.hadoop.hdfs.server"


class Hdfs(HadoopService):
    """Starts on entering the context, on leaving it is killed; ``folder`` gets settings, data and logs."""

    def __init__(self, folder: Path) -> None:
        address, self._web = free_addresses(2)
        self.uri = f"hdfs://{address}"
        self.configuration = folder / "conf"
        """What ``HADOOP_CONF_DIR`` is set to by those who use it."""
        self.configuration.mkdir(parents=True)
        write_settings(self.configuration / "core-site.xml", {"fs.defaultFS": self.uri})
        write_settings(self.configuration / "hdfs-site.xml", self._settings(folder))
        self.name_node = HadoopDaemon(f"{SERVER}.namenode.NameNode", folder, self.configuration)
        self.data_node = HadoopDaemon(f"{SERVER}.datanode.DataNode", folder, self.configuration)

    def prepare(self) -> None:
        self.name_node.run("-format", "-nonInteractive")

    def start(self) -> None:
        """Start what is down, at the same place with the same data, and return when files can be written."""
        self.name_node.start(lambda: bool(self._state()))
        self.data_node.start(self.is_writable)

    def kill(self) -> None:
        self.data_node.kill()
        self.name_node.kill()

    def is_writable(self) -> bool:
        """Whether the NameNode has left its safe mode and knows a DataNode."""
        state = self._state()
        return state.get("FSState") == "Operational" and state.get("NumLiveDataNodes") == 1

    def _state(self) -> dict[str, object]:
        query = "qry=Hadoop:service=NameNode,name=FSNamesystemState"
        try:
            with urllib.request.urlopen(f"http://{self._web}/jmx?{query}", timeout=5) as answer:
                beans: list[dict[str, object]] = json.load(answer)["beans"]
        except (OSError, urllib.error.URLError, ValueError):
            return {}
        return beans[0] if beans else {}

    def _settings(self, folder: Path) -> dict[str, str]:
        return {
            "dfs.replication": "1",
            "dfs.namenode.name.dir": f"file://{folder}/name",
            "dfs.datanode.data.dir": f"file://{folder}/data",
            "dfs.namenode.http-address": self._web,
            "dfs.datanode.address": "127.0.0.1:0",
            "dfs.datanode.http.address": "127.0.0.1:0",
            "dfs.datanode.ipc.address": "127.0.0.1:0",
            "dfs.namenode.datanode.registration.ip-hostname-check": "false",
            # after a restart the safe mode ends when every block is there: not before it, not 30 s after it
            "dfs.namenode.safemode.threshold-pct": "1.0",
            "dfs.namenode.safemode.min.datanodes": "1",
            "dfs.namenode.safemode.extension": "0",
            "dfs.datanode.du.reserved": "0",
        }
