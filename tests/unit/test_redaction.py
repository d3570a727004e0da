"""What looks like a credential, in all the shapes in which drivers, Spark and clouds print it."""

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessionizer.redaction import HIDDEN, redact, redact_and_cut

AZURE_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJtZSJ9.c2lnbmF0dXJl"
PEM = "-----BEGIN RSA PRIVATE KEY-----"
SLACK = "https://hooks.slack.com/services/"
XML = "<property><name>{}</name><value>{}</value></property>"


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
        ("bearer password: S30000", "bearer password: ***"),
        ("authorization: password: S30000", "authorization: password: ***"),
        ("authorization: bearer password: S30000", "authorization: *** password: ***"),
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
        ("password is 'x'", "password is ***"),
        ("the db password was hunter2, again", "the db password was ***, again"),
        ("login with password 'x' failed", "login with password *** failed"),
        ("pass=hunter2", "pass=***"),
        ("db_pass=hunter2 n=1", "db_pass=*** n=1"),
        ("dbPass: hunter2", "dbPass: ***"),
        ("mysqldump --pass hunter2 db", "mysqldump --pass *** db"),
        ("PGPASSWORD=hunter2 psql", "PGPASSWORD=*** psql"),
        (
            "https://a.blob.core.windows.net/c?sv=2&sr=c&sig=A%2Fb%3D",
            "https://a.blob.core.windows.net/c?sv=2&sr=c&sig=***",
        ),
        ("c?sv=2022&amp;sig=A%2Fb", "c?sv=2022&amp;sig=***"),
        ("next=c%3Fsv%3D2%26sig%3DAbC", "next=c%3Fsv%3D2%26sig%3D***"),
        ("?X-Amz-Credential=A/b&X-Amz-Signature=0f1e", "?X-Amz-Credential=***&X-Amz-Signature=***"),
        ("SharedAccessSignature sr=x&sig=abc&se=1", "SharedAccessSignature sr=x&sig=***&se=1"),
        ("clone https://hunter2@host/x.git", "clone https://***@host/x.git"),
        ("clone https://hunter2:x-oauth-basic@host/x.git", "clone https://***@host/x.git"),
        ("mongodb+srv://hunter2@host/x", "mongodb+srv://***@host/x"),
        ("curl -s -u me:hunter2 https://host", "curl -s -u me:*** https://host"),
        (XML.format("fs.s3a.secret.key", "x"), XML.format("fs.s3a.secret.key", "***")),
        (XML.format("fs.azure.account.key.me", "x"), XML.format("fs.azure.account.key.me", "***")),
        (
            "<name>my.key</name>\n  <final>true</final>\n  <value>x",
            "<name>my.key</name>\n  <final>true</final>\n  <value>***",
        ),
        ("<password>hunter2</password>", "<password>***</password>"),
        ('<property name="db.password" value="x"/>', '<property name="db.password" value=***/>'),
        ("Cookie: session=abc; other=def", "Cookie: ***"),
        ("set-cookie: id=abc; Secure\nnext", "set-cookie: ***\nnext"),
        ('{"Cookie": "a=b; c=d", "n": 1}', '{"Cookie": ***, "n": 1}'),
        ("key sk-proj-abcdefgh12345678 used", "key *** used"),
        ("key sk_live_abcdefghijklmnopqrst used", "key *** used"),
        ('{\\"password\\": \\"hunter2\\"}', '{\\"password\\": ***}'),
        ("hdfs://me:hunter2@name-node:8020/x", "hdfs://me:***@name-node:8020/x"),
        ("basic.auth.user.info=user:hunter2", "basic.auth.user.info=***"),
        ("s3a://KEY:SECRET@b/x", "s3a://KEY:***@b/x"),
        ("spark.hadoop.fs.s3a.secret.key   hunter2", "spark.hadoop.fs.s3a.secret.key   ***"),
        ("  spark.my.key\t/hunter2", "  spark.my.key\t***"),
        ("(spark.hadoop.fs.s3a.secret.key,hun ter,2)", "(spark.hadoop.fs.s3a.secret.key,***)"),
        ("Map(fs.s3a.secret.key -> hunter2, n -> 1)", "Map(fs.s3a.secret.key -> ***, n -> 1)"),
        ("Driver=x;password={Hun;ter2};n=1", "Driver=x;password=***;n=1"),
        ("jdbc:oracle:thin:scott/tiger@host:1521/x", "jdbc:oracle:thin:scott/***@host:1521/x"),
        (
            "-----BEGIN PGP PRIVATE KEY BLOCK-----\nlQ\n-----END PGP PRIVATE KEY BLOCK-----\nnext",
            "-----BEGIN PGP PRIVATE KEY BLOCK-----***\nnext",
        ),
        ("vault hvs.CAESIJlU0dq4qBn7", "vault ***"),
        ("mail SG.ngeVfQFYQlKU0ufo8x5d1A.TwL2iGABf9DHoTf-09kqeF", "mail ***"),
        ("google ya29.a0AfH6SMBx1", "google ***"),
        ("shop shpat_0123456789abcdef", "shop ***"),
        ("secrets: hunter2 tokens: x", "secrets: *** tokens: ***"),
        ("pass: 1234", "pass: ***"),
    ],
)
def test_credentials_are_hidden(line: str, shown: str) -> None:
    assert redact(line) == shown


@pytest.mark.parametrize(
    "line",
    [
        "java.lang.OutOfMemoryError: Java heap space",
        "batch 3 · 1,234 ev/s · http://10.0.0.1:4040/jobs",
        "connected to spark://master:7077, hdfs://name-node:8020/x and https://host:443",
        "mapping.key is 'lower(user_id)'. Use an expression over u, ts, id",
        "driver 1f2e holds fencing token 3, but token 4 is newer",
        "the token count is 7",
        'tokens: 512, "max_tokens": 512',
        "session.key is used by two streams",
        "hdfs://host:port/… cannot be reached",
        "hdfs://name-node:8020: connection refused",
        "hdfs://name-node:8020.",
        "tables={hdfs://name-node:8020}, <hdfs://name-node:8020>",
        "hdfs://token-store:8020/x and kafka://user-secrets:9092/",
        "hdfs://me@name-node:8020/user/a@b/x",
        "abfss://container@account.dfs.core.windows.net/x",
        "--driver-url spark://CoarseGrainedScheduler@host:7078",
        "the token is expired and the password is wrong",
        "the fencing token was held by driver 1f2e",
        "control/leases/<token>.json is damaged, <name> is not known",
        XML.format("fs.defaultFS", "hdfs://name-node:8020"),
        "bypass=true compass=north passed=3 passes: 7",
        "risk-averse-and-desk-bound-words, task-12345678901234",
        "session_id 8c1d4c5f9b0e4b7a8c1d4c5f9b0e4b7a8c1d4c5f9b0e4b7a8c1d4c5f9b0e4b7a",
    ],
)
def test_what_is_none_stays_as_it_is(line: str) -> None:
    assert redact(line) == line


LINES = (
    "db_pass: x",
    "https://a:b@host",
    f"the answer was {JWT}",
    "(my.token,a b)",
    "Cookie: a=b",
    "--secret x",
    "<token>x</token>",
)
SHAPES = (
    "password={}", 'secret: "{}"', "amqp://me:{}@host/x", "Authorization: Bearer {}", "--token {} x", "pwd='{}';",
    "password is '{}'", "password is {}", "the secret was {}", "pass={}", "db_pass: {}", "?sv=1&sig={}&se=2",
    "https://{}@host/x", "https://{}:x@host/x", "http://{}:@host", "<token>{}</token>",
    "<name>my.key</name><value>{}</value>",
    "Cookie: a={}; b=c", "Set-Cookie: {}", "Cookie: a=b; c={}", 'api_key => "{}"', "curl -u me:{} x", "sig%3D{}",
)  # fmt: skip


@given(
    st.sampled_from(SHAPES),
    st.text(string.ascii_letters + string.digits, min_size=12, max_size=40),
    st.text(string.ascii_lowercase + " ", max_size=60),
    st.integers(0, 160),
)
def test_wherever_a_text_is_cut_no_half_of_a_secret_is_left(shape: str, secret: str, before: str, limit: int) -> None:
    text = f"{before} {shape.format('s3cr3t' + secret)}"
    assert "s3cr3t" not in redact_and_cut(text, limit)


NAMES = (
    "password",
    "db_pass",
    "fs.s3a.secret.key",
    "API-KEY",
    "sasToken",
    "x-auth-token",
    "ssl.key.password",
    "PGPASSWORD",
)
MEANS = ("{}={}", "{}: {}", "{} = '{}'", '"{}": "{}"', "{} => {}", "--{} {}", "{} is '{}'", "{} is {}", "{}%3D{}")
ENDS = ("", " and more", "\nnext line", ", x=1", "; y", ")")


@given(
    st.sampled_from(NAMES),
    st.sampled_from(MEANS),
    st.sampled_from(ENDS),
    st.text(string.ascii_letters + string.digits + "-_.~+/=%!@#$^*:", min_size=4, max_size=40),
    st.text(string.ascii_lowercase + " \n", max_size=30),
)
def test_a_named_secret_never_survives(name: str, means: str, end: str, secret: str, before: str) -> None:
    whole = f"S3{secret}"
    assert whole not in redact(f"{before} {means.format(name, whole)}{end}")


@given(st.lists(st.sampled_from((*LINES, "batch 3", "the token count is 7")), max_size=6))
def test_a_line_is_hidden_alike_among_others(lines: list[str]) -> None:
    """A rule is tried only on lines that can match it, which must not show."""
    assert redact("\n".join(lines)) == "\n".join(map(redact, lines))


def test_it_is_done_once() -> None:
    line = f"password=hunter2 at amqp://a:b@c and {JWT}"
    assert redact(redact(line)) == redact(line)
    assert redact(line).count(HIDDEN) == 3
