"""Drivers in YARN: found by a tag, because YARN assigns an application's id only at submission."""

import getpass
import http.client
import json
import os
import re
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final, Self
from xml.etree import ElementTree

from sessionizer.causes.table import CAUSES
from sessionizer.control.records.process_records import SUBMITTED
from sessionizer.errors import ClusterUnreachable, ResourceManagerUnknown
from sessionizer.redaction import redact_and_cut
from sessionizer_airflow.launching.local import DriverObservation, cause_of_exit
from sessionizer_airflow.launching.spark_submit import DRIVER_VARIABLES, Manager

PREFIX: Final = "yarn.resourcemanager"
REFERENCE: Final = re.compile(r"\$\{([\w.-]+)\}")
NESTED: Final = 20
"""Largest depth of references between values. Hadoop gives up there, too."""


def yarn_settings(environment: Mapping[str, str]) -> dict[str, str] | None:
    """Read ``yarn-site.xml``. Return None if no variable leads to a readable one."""
    folder = environment.get("YARN_CONF_DIR") or environment.get("HADOOP_CONF_DIR")  # as spark-submit reads them
    try:
        return read_settings((Path(folder) / "yarn-site.xml").read_text()) if folder else None
    except (OSError, ElementTree.ParseError):
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
    """Return the URLs of the ResourceManager, of a highly available one all of them, because any may be active."""
    secure = settings.get("yarn.http.policy") == "HTTPS_ONLY"
    scheme, name, port = ("https", "webapp.https.address", 8090) if secure else ("http", "webapp.address", 8088)
    suffixes = [""]
    if settings.get(f"{PREFIX}.ha.enabled") == "true":
        suffixes = [f".{one.strip()}" for one in settings.get(f"{PREFIX}.ha.rm-ids", "").split(",") if one.strip()]
    addresses = (
        resolve_setting(settings, f"{PREFIX}.{name}{suffix}")
        or f"{resolve_setting(settings, f'{PREFIX}.hostname{suffix}') or '0.0.0.0'}:{port}"  # noqa: S104 - Hadoop's default
        for suffix in suffixes
    )
    return tuple(f"{scheme}://{address}" for address in addresses)


def resolve_setting(settings: Mapping[str, str], name: str) -> str | None:
    """Return the value of a property, with the values of other properties for its references ``${name}``."""
    value = settings.get(name)
    for _ in range(NESTED):
        if value is None or not REFERENCE.search(value):
            break
        value = REFERENCE.sub(lambda found: settings.get(found[1], found[0]), value)
    return value or None


ANSWER_LIMIT_SECONDS: Final = 15.0
"""Timeout for one address. An active ResourceManager answers within milliseconds."""
LONGEST_ANSWER_BYTES: Final = 8 * 1024 * 1024
CLUSTER: Final = "/ws/v1/cluster"


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Handler that follows no redirect of a standby. It may name the active one in a way that does not resolve here."""

    def redirect_request(self, *_: object) -> None:
        return None


_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}), _NoRedirects)


class _NotActive(Exception):
    """The ResourceManager at an address did not answer, or refused."""


def _require_active(address: str) -> None:
    """Raise _NotActive if the ResourceManager is not active: a starting one has not read its applications yet."""
    state = json.loads(request_url("GET", f"{address}{CLUSTER}/info"))["clusterInfo"]["haState"]
    if state != "ACTIVE":
        raise _NotActive(f"is {str(state).lower()}, not active")


def request_url(verb: str, url: str, body: Mapping[str, str] | None = None) -> bytes:
    """Request a URL and return the body. Raises _NotActive with the reason if there is no answer."""
    request = urllib.request.Request(  # noqa: S310 - the addresses are the site's own
        url,
        method=verb,
        data=None if body is None else json.dumps(body).encode(),
        headers={"Content-Type": "application/json", "Accept": "application/json, text/plain"},
    )
    try:
        with _OPENER.open(request, timeout=ANSWER_LIMIT_SECONDS) as answer:
            found: bytes = answer.read(LONGEST_ANSWER_BYTES)
    except urllib.error.HTTPError as error:
        raise _NotActive(_refusal(error)) from error
    except (OSError, http.client.HTTPException) as error:
        raise _NotActive(str(getattr(error, "reason", None) or error) or type(error).__name__) from error
    return found


def _refusal(error: urllib.error.HTTPError) -> str:
    with error:
        if error.code in {HTTPStatus.FOUND, HTTPStatus.TEMPORARY_REDIRECT}:
            return "sends us elsewhere"
        if (
            error.code == HTTPStatus.UNAUTHORIZED
            and "negotiate" in (error.headers.get("WWW-Authenticate") or "").lower()
        ):
            return "wants a Kerberos ticket, which is not sent"
        return f"says {error.code} {error.reason}"


def fetch_log(container_log: str, name: str, size: int) -> str | None:
    """Return the last ``size`` bytes that a container printed into its file ``name``. None if they cannot be read.

    ``container_log`` is YARN's address of the log for users: ``http://<node>/node/containerlogs/<container>/<user>``.
    """
    node, found, rest = container_log.partition("/node/containerlogs/")
    if not found:
        return None
    try:
        text = request_url("GET", f"{node}/ws/v1/node/containers/{rest.partition('/')[0]}/logs/{name}?size=-{size}")
    except _NotActive:
        return None
    # a node puts lines around a log
    return text.decode(errors="replace").partition("\nLogContents:\n")[2].rpartition("\nEnd of LogType:")[0]


LIVE_STATES: Final = frozenset({"NEW", "NEW_SAVING", "SUBMITTED", "ACCEPTED", "RUNNING"})
DIAGNOSTICS_LIMIT: Final = 300
"""Number of characters of YARN's diagnostics that a message shows."""
LOG_BYTES: Final = 16 * 1024
EXIT_CODE: Final = re.compile(r"User application exited with status (\d+)")


@dataclass(frozen=True)
class YarnManager:
    """Implementation of ``ClusterManager`` for YARN. A submission is a tag: the driver's uid.

    The ResourceManager is asked at each of its ``addresses`` (URLs) in turn until the active one answers. An
    application is a document of its web service: ``id``, ``state``, ``finalStatus``, ``diagnostics`` and so on.
    """

    addresses: tuple[str, ...]

    @classmethod
    def of(cls, given: str | None, environment: Mapping[str, str] = os.environ) -> Self:
        """Make it from the addresses ``given`` (with commas), else from Hadoop's configuration. It may have none."""
        if given:
            return cls(tuple(one.strip().rstrip("/") for one in given.split(",") if one.strip()))
        settings = yarn_settings(environment)
        return cls(web_addresses(settings) if settings is not None else ())

    def submission(self, uid: str) -> str:
        """See ``ClusterManager``."""
        return uid

    def settings(self, submission: str) -> dict[str, str]:
        """See ``ClusterManager``. Raises ResourceManagerUnknown: there is no ResourceManager to ask for the driver."""
        if not self.addresses:
            raise ResourceManagerUnknown
        return {
            "spark.yarn.submit.waitAppCompletion": "false",
            "spark.yarn.tags": submission,
            "spark.yarn.maxAppAttempts": "1",
            f"{DRIVER_VARIABLES[Manager.YARN]}{SUBMITTED}": "1",
        }

    def look_for(self, submission: str) -> DriverObservation:
        """See ``ClusterManager``."""
        return combine_applications(self.applications(submission))

    def kill(self, submission: str) -> None:
        """See ``ClusterManager``. An application that has ended meanwhile is no error."""
        for found in self.applications(submission):
            if found["state"] in LIVE_STATES:
                self.kill_application(found["id"])

    def kill_application(self, application: str) -> None:
        """Ask YARN to kill the application of this id. Raises ClusterUnreachable."""
        # Without security YARN needs only a user name: the one under which spark-submit has submitted.
        user = urllib.parse.urlencode({"user.name": os.environ.get("HADOOP_USER_NAME") or getpass.getuser()})
        self._ask("PUT", f"{CLUSTER}/apps/{urllib.parse.quote(application)}/state?{user}", {"state": "KILLED"})

    def last_words(self, submission: str) -> list[str]:
        """Return the end of the driver's log, as long as its node has it or knows its place. See ``ClusterManager``."""
        for found in self.applications(submission):
            log = str(found.get("amContainerLogs") or "")
            printed = [fetch_log(log, name, LOG_BYTES) for name in ("stderr", "stdout")]
            if any(printed):
                return [line for text in printed if text for line in text.splitlines()]
        return []

    def applications(self, tag: str) -> list[dict[str, Any]]:
        """List all applications that bear ``tag``, also ended ones. Raises ClusterUnreachable."""
        query = urllib.parse.urlencode({"applicationTags": tag, "deSelects": "resourceRequests"})
        answer = self._ask("GET", f"{CLUSTER}/apps?{query}")
        return (answer.get("apps") or {}).get("app") or []

    def _ask(self, verb: str, path: str, body: Mapping[str, str] | None = None) -> dict[str, Any]:
        refused: list[str] = []
        for address in self.addresses:
            try:
                _require_active(address)
                found: dict[str, Any] = json.loads(request_url(verb, address + path, body))
            except _NotActive as error:
                refused.append(f"{address} {error}")
            except (ValueError, LookupError, TypeError):
                refused.append(f"{address} answers nothing that a ResourceManager would")
            else:
                return found
        if not refused:
            raise ClusterUnreachable(("yarn",), str(ResourceManagerUnknown()))
        # the command by which a user can ask
        raise ClusterUnreachable(("curl", "-X", verb, self.addresses[0] + path), "; ".join(refused))


def combine_applications(found: list[dict[str, Any]]) -> DriverObservation:
    """Combine the applications of one tag into one observation of the driver."""
    if not found:
        return DriverObservation(alive=False, said="YARN knows no application of it")
    told = ", ".join(f"{one['id']} is {one['state']}{_describe_end(one)}" for one in found)
    states = {one["state"] for one in found}
    lives = not LIVE_STATES.isdisjoint(states)
    codes = [code for one in found for code in EXIT_CODE.findall(_diagnostics(one))]
    cause = CAUSES["no_resources"] if lives and "RUNNING" not in states else cause_of_exit(codes)
    return DriverObservation(alive=lives, said=f"YARN says that {told}", cause=cause)


def _describe_end(found: dict[str, Any]) -> str:
    """Return in words how an application ended, if it did, and why it ended or waits, as far as YARN knows."""
    state, final = found["state"], found.get("finalStatus", "")
    ended = "" if state in LIVE_STATES or final == state else f" ({final})"
    why = "" if state == "RUNNING" else redact_and_cut(_diagnostics(found), DIAGNOSTICS_LIMIT)
    return ended + (f": {why}" if why else "")


def _diagnostics(found: dict[str, Any]) -> str:
    return " ".join(str(found.get("diagnostics") or "").split())
