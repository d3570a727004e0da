"""What looks like a credential, in all the shapes in which drivers, Spark and clouds print it."""

from __future__ import annotations

import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sessionizer.redaction import HIDDEN, redacted, redacted_and_cut

AZURE_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJtZSJ9.c2lnbmF0dXJl"
PEM = "-----BEGIN RSA PRIVATE KEY-----"
SLACK = "https://hooks.slack.com/services/"


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("password=hunter2 user=me", "password=*** user=me"),
        ('sasl.jaas.config: username="u" password="p w\\"d";', "sasl.jaas.config: *** password=***;"),
        ("spark.hadoop.fs.s3a.secret.key=abc/def+1", "spark.hadoop.fs.s3a.secret.key=***"),
        ("fs.s3a.access.key=abcdef", "fs.s3a.access.key=***"),
        (
            f"fs.azure.account.key.me.dfs.core.windows.net={AZURE_KEY}",
            "fs.azure.account.key.me.dfs.core.windows.net=***",
        ),
        (f"wrong key {AZURE_KEY} for it", "wrong key *** for it"),
        (f"AccountName=me;AccountKey={AZURE_KEY};Suffix=x", "AccountName=me;AccountKey=***;Suffix=x"),
        ('{"api_key": "12345", "n": 1}', '{"api_key": ***, "n": 1}'),
        ("cnx: server=h;uid=me;pwd=hunter2;db=x", "cnx: server=h;uid=me;pwd=***;db=x"),
        ("fs.azure.account.key... SAS_TOKEN: 'sv=1&sig=2'", "fs.azure.account.key... SAS_TOKEN: ***"),
        ("GET /x?sv=2024&sig=abc%2B1&se=2030", "GET /x?sv=2024&sig=***&se=2030"),
        ("Authorization: Bearer eyJhbGciOi.x-y_z", "Authorization: Bearer ***"),
        ("authorization: Basic dXNlcjpwdw==", "authorization: Basic ***"),
        (f"the answer was {JWT}.", "the answer was ***."),
        (f"the answer was {JWT[:30]}", "the answer was ***"),
        (f"POST {SLACK}T000/B000/XXXX failed", "POST https://hooks.slack.com/*** failed"),
        ("SLACK_WEBHOOK_URL=https://example.com/x/y", "SLACK_WEBHOOK_URL=***"),
        ("jdbc:postgresql://me:pw@host/db", "jdbc:postgresql://me:***@host/db"),
        ("jdbc:postgresql://me:hunter2", "jdbc:postgresql://me:***"),
        ("amqp://me:1234x", "amqp://me:***"),
        ("redis://:hunter2@host:6379/0", "redis://:***@host:6379/0"),
        ("key AKIAABCDEFGHIJKLMNOP used", "key *** used"),
        ("spark-submit --conf x --password hunter2 main.py", "spark-submit --conf x --password *** main.py"),
        ("login with ghp_abcdefghijklmnop0123", "login with ***"),
        (
            "-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----\nnext",
            "-----BEGIN RSA PRIVATE KEY-----***\nnext",
        ),
    ],
)
def test_credentials_are_hidden(line: str, shown: str) -> None:
    assert redacted(line) == shown


@pytest.mark.parametrize(
    "line",
    [
        "java.lang.OutOfMemoryError: Java heap space",
        "batch 3 · 1,234 ev/s · http://10.0.0.1:4040/jobs",
        "connected to spark://master:7077, hdfs://name-node:8020/x and https://host:443",
        "mapping.key is 'lower(user_id)'; allowed: an expression over u, ts, id",
        "driver 1f2e holds fencing token 3, but 4 was given out",
        "the token count is 7",
        "session_id 8c1d4c5f9b0e4b7a8c1d4c5f9b0e4b7a8c1d4c5f9b0e4b7a8c1d4c5f9b0e4b7a",
    ],
)
def test_what_is_none_stays_as_it_is(line: str) -> None:
    assert redacted(line) == line


SHAPES = ("password={}", 'secret: "{}"', "amqp://me:{}@host/x", "Authorization: Bearer {}", "--token {} x", "pwd='{}';")


@settings(deadline=None)
@given(
    st.sampled_from(SHAPES),
    st.text(string.ascii_letters + string.digits, min_size=12, max_size=40),
    st.text(string.ascii_lowercase + " ", max_size=60),
    st.integers(0, 160),
)
def test_wherever_a_text_is_cut_no_half_of_a_secret_is_left(shape: str, secret: str, before: str, limit: int) -> None:
    text = f"{before} {shape.format('s3cr3t' + secret)}"
    assert "s3cr3t" not in redacted_and_cut(text, limit)


def test_it_is_done_once() -> None:
    line = f"password=hunter2 at amqp://a:b@c and {JWT}"
    assert redacted(redacted(line)) == redacted(line)
    assert redacted(line).count(HIDDEN) == 3
