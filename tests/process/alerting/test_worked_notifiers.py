"""The notifiers of docs/alerts.md, as they stand there, received by servers of HTTP and SMTP on this machine."""

import email
import json
import re
import shlex
import socketserver
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

import pytest

from sessionizer_airflow.alerting import Alert, AlertKind, make_notifier, notify, send_test
from support.places import REPOSITORY
from support.processes.ports import Answering, served

PAGE = (REPOSITORY / "docs" / "alerts.md").read_text()
EXAMPLES = dict(re.findall(r"^## (\S+)\n.*?```sh\n(.*?)```", PAGE, re.MULTILINE | re.DOTALL))
ALERT = Alert(stream="clicks", kind=AlertKind.TEST, reason='it "broke"', what_to_do="mend it")
ANSWERS = {"EHLO": "250-mailbox\r\n250 AUTH PLAIN LOGIN", "AUTH": "235 in", "QUIT": "221 bye"}


class Received(Answering, BaseHTTPRequestHandler):
    """Notes each request, and answers as Slack and PagerDuty do."""

    requests: ClassVar[list[tuple[str, dict[str, str], Any]]]

    def do_POST(self) -> None:
        self.requests.append((self.path, dict(self.headers), json.loads(self.body())))
        if self.path.startswith("/services"):
            self.answer(200, b"ok", Content_Type="text/plain")
        else:
            answer = b'{"status": "success", "dedup_key": "one"}'
            self.answer(202 if self.path == "/v2/enqueue" else 200, answer, Content_Type="application/json")


class Mailbox(socketserver.StreamRequestHandler):
    """An SMTP server that takes one mail at a time."""

    mails: ClassVar[list[str]]

    def handle(self) -> None:
        self._say("220 mailbox")
        for line in iter(lambda: self.rfile.readline().decode().strip(), ""):
            command = line.split()[0].upper()
            if command == "DATA":
                self._say("354 go on")
                self.mails.append("".join(iter(lambda: self.rfile.readline().decode(), ".\r\n")))
            self._say(ANSWERS.get(command, "250 ok"))
            if command == "QUIT":
                return

    def _say(self, text: str) -> None:
        self.wfile.write(f"{text}\r\n".encode())


@pytest.fixture
def web() -> Iterator[str]:
    Received.requests = []
    with served(ThreadingHTTPServer(("127.0.0.1", 0), Received)) as port:
        yield f"http://127.0.0.1:{port}"


@pytest.fixture
def mail_port() -> Iterator[int]:
    Mailbox.mails = []
    with served(socketserver.ThreadingTCPServer(("127.0.0.1", 0), Mailbox)) as port:
        yield port


def take_example(monkeypatch: pytest.MonkeyPatch, name: str, **connection: Any) -> None:
    for line in EXAMPLES[name].splitlines():
        variable, _, value = line.partition("=")
        (value,) = shlex.split(value)
        if variable.startswith("AIRFLOW_CONN"):
            value = json.dumps({**json.loads(value), **connection})
        monkeypatch.setenv(variable, value)


def test_every_example_is_here() -> None:
    assert set(EXAMPLES) == {"Slack", "E-mail", "Webhook", "PagerDuty"}


def test_slack(web: str, monkeypatch: pytest.MonkeyPatch) -> None:
    take_example(monkeypatch, "Slack", host=f"{web}/services")
    assert str(send_test(ALERT)).endswith("SlackWebhookNotifier")
    ((path, _, body),) = Received.requests
    assert path == "/services/T0000/B0000/XXXX"
    assert body["text"] == f":rotating_light: {ALERT.message}"


def test_a_webhook(web: str, monkeypatch: pytest.MonkeyPatch) -> None:
    take_example(monkeypatch, "Webhook", host=web)
    send_test(ALERT)
    ((path, headers, body),) = Received.requests
    assert (path, headers["Authorization"]) == ("/alerts", "Bearer XXXX")
    about = {"stream": "clicks", "kind": "test", "health": "unknown"}
    assert body == {**about, "reason": 'it "broke"', "what_to_do": "mend it"}


def test_pagerduty(web: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # its address is fixed, and no other scheme than https is taken
    monkeypatch.setattr("pagerduty.EventsApiV2Client.url", property(lambda _: web, lambda *_: None))
    take_example(monkeypatch, "PagerDuty")
    send_test(ALERT)
    ((path, _, body),) = Received.requests
    assert (path, body["routing_key"], body["dedup_key"]) == ("/v2/enqueue", "XXXX", "stream clicks")
    assert (body["payload"]["summary"], body["payload"]["class"]) == (ALERT.message, "test")


def test_a_mail(mail_port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = {"disable_ssl": True, "disable_tls": True}
    take_example(monkeypatch, "E-mail", host="127.0.0.1", port=mail_port, extra=plain)
    send_test(ALERT)
    (mail,) = map(email.message_from_string, Mailbox.mails)
    assert (mail["Subject"], mail["To"]) == ("clicks: test", "on-call@example.com")
    (_, part) = mail.walk()
    assert part.get_payload(decode=True) == ALERT.message.encode()


def test_a_server_that_is_away_fails_a_test_and_no_stream(monkeypatch: pytest.MonkeyPatch, said: list[str]) -> None:
    take_example(monkeypatch, "Webhook", host="http://127.0.0.1:1")
    with pytest.raises(Exception, match="refused"):
        send_test(ALERT)
    notify(ALERT, said.append)
    assert len(said) == 1


def test_without_a_notifier_nothing_is_sent() -> None:
    assert make_notifier({}) is None
