"""Requests to YARN's ResourceManager and its nodes, over HTTP."""

from __future__ import annotations

import getpass
import http.client
import json
import os
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from sessionizer.errors import ClusterUnreachable, ResourceManagerUnknown
from sessionizer_airflow.launching.hadoop_settings import web_addresses, yarn_settings

if TYPE_CHECKING:
    from collections.abc import Mapping

ANSWER_LIMIT_SECONDS: Final = 15.0
"""Timeout for one address. An active ResourceManager answers within milliseconds."""
LONGEST_ANSWER_BYTES: Final = 8 * 1024 * 1024
CLUSTER: Final = "/ws/v1/cluster"


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Handler that follows no redirect.

    A standby redirects to the active ResourceManager by a name that may not resolve here. We know both addresses.
    """

    def redirect_request(self, *_: object) -> None:
        return None


_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}), _NoRedirects)


@dataclass(frozen=True)
class ResourceManager:
    """YARN's ResourceManager, asked at each of its ``addresses`` (URLs) in turn until the active one answers."""

    addresses: tuple[str, ...]

    @classmethod
    def of(cls, given: str | None, environment: Mapping[str, str] = os.environ) -> ResourceManager:
        """Make it from the addresses ``given`` (separated by commas), else from Hadoop's configuration.

        It has no addresses if there is neither.
        """
        if given:
            return cls(tuple(one.strip().rstrip("/") for one in given.split(",") if one.strip()))
        settings = yarn_settings(environment)
        return cls(web_addresses(settings) if settings is not None else ())

    def require_known(self) -> None:
        """Raise ResourceManagerUnknown if there is no address."""
        if not self.addresses:
            raise ResourceManagerUnknown

    def applications(self, tag: str) -> list[dict[str, Any]]:
        """List all applications that bear ``tag``, also ended ones, as YARN describes them.

        Raises ClusterUnreachable.
        """
        query = urllib.parse.urlencode({"applicationTags": tag, "deSelects": "resourceRequests"})
        answer = self._asked("GET", f"{CLUSTER}/apps?{query}")
        return (answer.get("apps") or {}).get("app") or []

    def kill(self, application: str) -> None:
        """Ask YARN to kill the application. An application that has ended is no error. Raises ClusterUnreachable."""
        # Without security YARN needs only a user name: the one under which spark-submit has submitted.
        user = urllib.parse.urlencode({"user.name": os.environ.get("HADOOP_USER_NAME") or getpass.getuser()})
        self._asked("PUT", f"{CLUSTER}/apps/{urllib.parse.quote(application)}/state?{user}", {"state": "KILLED"})

    def _asked(self, verb: str, path: str, body: Mapping[str, str] | None = None) -> dict[str, Any]:
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


class _NotActive(Exception):
    """The ResourceManager at an address did not answer, or refused."""


def _require_active(address: str) -> None:
    """Check that the ResourceManager at ``address`` is active. Raises _NotActive.

    A starting ResourceManager answers at once, before it has read which applications it had.
    """
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
    return _contents(text.decode(errors="replace"))


def _contents(page: str) -> str:
    """Return the text between the lines that a node puts around a log."""
    return page.partition("\nLogContents:\n")[2].rpartition("\nEnd of LogType:")[0]
