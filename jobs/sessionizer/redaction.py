"""The redaction of credentials in text: a single list for logs, records, alerts and pages.

It errs on the side of hiding. Redact first and shorten afterwards, because a shortened credential may lack the part by
which it is recognized.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

HIDDEN: Final = "***"

SECRET_WORDS: Final = (
    "passwd", "password", "passwort", "passphrase", "passcode", "pwd", "secret", "token", "jaas", "credential",
    "(?<!by)(?<!com)(?<!tres)pass(?![a-z])", "private[._-]?key", "api[._-]?key", "access[._-]?key",
    "account[._-]?key", "auth[._-]?key", "signing[._-]?key", "encryption[._-]?key", "shared[._-]?access",
    "connection[._-]?string", "webhook", "fernet", r"sas[._-]?token", r"fixed\.token",
)  # fmt: skip
"""Words in a setting's name by which its value is a secret: regular expressions, case does not count."""

_NAMED: Final = rf"(?:{'|'.join(SECRET_WORDS)}|(?<![a-z])sig(?:nature)?(?![a-z]))[\w.\-]{{0,80}}"
_QUOTED: Final = r"""(?:"(?:[^"\\\n]|\\.)*"?|'(?:[^'\\\n]|\\.)*'?)"""
_VALUE: Final = rf"(?:{_QUOTED}|[^\s,;&)}}\]]+)"
_QUOTE: Final = r"""(?:\\*["'])?"""
_MEANS: Final = r"[ \t]*(?:=>|[=:]|%3[Dd])[ \t]*"
_STATE_TEXT: Final = """
a an the not no none null missing wrong required expired invalid empty stale too used set unset unknown needed given
hidden rejected refused held incorrect deprecated older newer in at for by of to sent read
"""
_STATE: Final = rf"(?:{'|'.join(_STATE_TEXT.split())})\b"
"""Words after ``password is`` that describe the password, and are none."""

_SCHEME: Final = r"\b[\w+.-]{1,40}://"
_PORT: Final = r"(?:\d{1,5}|port)(?:[/?#,;)\s\"'\]}<>|…]|[.:](?:\s|$)|$)"
_JWT: Final = r"\beyJ[\w-]{5,}(?:\.[\w-]*){0,2}"
_KEYS: Final = (
    r"\b(?:AKIA|ASIA)[0-9A-Z]{12,}\b",
    r"\b(?:xox[abeoprs]-|xapp-|gh[pousr]_|github_pat_|glpat-|hf_|npm_|pypi-|dapi(?=[0-9a-f]{16}))[\w-]{6,}",
    r"\b(?:sk|rk)[-_](?:(?=[\w-]{0,40}\d)[\w-]{12,}|[\w-]{20,})",
    r"\bAIza[\w-]{30,}",
    # the shape of an Azure account key: 64 bytes in base 64
    r"(?<![\w/+])[\w/+]{86}==(?!=)",
)
"""Keys that are recognized by their first characters."""

_BEFORE: Final = (
    # a pem block, whole or begun
    r"(-----BEGIN [A-Z ]*PRIVATE KEY-----)(?:(?s:.*?)-----END [A-Z ]*-----|(?s:.*))",
    # elements of XML: Hadoop's <name>…key</name><value>…</value>, <password>…</password>, name="password" value="…"
    rf"(?i)(<name>[^<>]{{0,200}}?(?:{_NAMED}|key(?![a-z]))[^<>]{{0,200}}</name>\s*(?:<final>\w*</final>\s*)?<value>)[^<]*",
    rf"(?i)(<[\w:.-]{{0,80}}?{_NAMED}(?:\s[^<>]*)?>)[^<]+(?=</|$)",
    rf"""(?i)(name=["'][^"'<>]{{0,200}}?{_NAMED}["']\s+value=){_QUOTED}""",
    # before the named values, because its value would end at the blank
    rf"""(?i)(\b(?:set-)?cookie{_QUOTE}[ \t]*[:=][ \t]*)(?:{_QUOTED}|[^\n]+)""",
    r"(?i)\b((?:proxy-)?authorization[\"']?\s*[=:]\s*[\"']?(?:\w+\s+)?)[\w.~+/=:-]{4,}",
    r"(?i)\b((?:bearer|basic)\s+)[\w.~+/=-]{8,}",
    r"(?i)(\bcurl\b[^\n]{0,200}?\s(?:-u|--user)[ =]?[^\s:]+:)\S+",
    # in words: password is 'x', password 'x'
    rf"""(?i)({_NAMED}{_QUOTE}[ \t]+(?:is|was)[ \t]+(?:now[ \t]+)?)(?!{_STATE}){_VALUE}""",
    rf"""(?i)((?:pass(?:word|wd|phrase)|\bpwd|\bsecret)[ \t]+){_QUOTED}""",
)
"""Patterns that go first, because a part of them would be taken for a name and its value. Group 1 stays."""
_AFTER: Final = (
    # --name value
    rf"(?i)(--?[\w.-]{{0,40}}{_NAMED}[ \t]+){_VALUE}",
    # the first half of https://…@host is a token as often as a user
    r"(?i)(\b(?:git\+)?https?://)[^\s/@\"'<>?#]+(?=@)",
    r"(?i)(\b(?!(?:abfss?|wasbs?|hdfs|viewfs|ofs|spark|ssh|git\+ssh|sftp)://)[\w+.-]{1,40}://)[^\s/@:\"'<>?#]+(?=@)",
    # scheme://user:password@host; a URL that was cut before its @ differs from host:port by a port that is no number
    rf"({_SCHEME}[^\s/:@\"']{{0,200}}:)[^\s/@\"']+(?=@)",
    rf"({_SCHEME}[^\s/:@\"'\[\]]{{1,200}}:)(?!{_PORT})[^\s/@\"']+",
    (r"(?i)(https?://(?:hooks\.slack(?:-gov)?\.com|discord(?:app)?\.com/api/webhooks|[\w.-]*webhook\.office"
     r"\.com|outlook\.office\.com/webhook|chat\.googleapis\.com|events\.pagerduty\.com|maker\.ifttt\.com)"
     r"/?)[^\s\"'<>]*"),
    _JWT,
    *_KEYS,
)  # fmt: skip


def _compile_rules(patterns: Iterable[str]) -> list[tuple[re.Pattern[str], str]]:
    rules = map(re.compile, patterns)
    return [(rule, (r"\1" if rule.groups else "") + HIDDEN) for rule in rules]


_FIRST: Final = _compile_rules(_BEFORE)
_NAMED_VALUE: Final = re.compile(rf"""(?i)({_NAMED}{_QUOTE}{_MEANS}){_VALUE}""")
"""Pattern of name=value, name: value, "name": "value", name => value, with or without quotes."""
_LAST: Final = _compile_rules(_AFTER)
_IN_HOST: Final = re.compile(rf"{_SCHEME}[\w.-]{{0,200}}$")
_BEGINS_PORT: Final = re.compile(_PORT)


def redact(text: str) -> str:
    """Replace all text that looks like a credential in ``text``, which may have several lines, by asterisks."""
    for pattern, shown in _FIRST:
        text = pattern.sub(shown, text)
    text = _NAMED_VALUE.sub(_named_hidden, text)
    for pattern, shown in _LAST:
        text = pattern.sub(shown, text)
    return text


def _named_hidden(found: re.Match[str]) -> str:
    """Hide the value of a name, but not the port of a host that is called like a secret: hdfs://token-store:8020."""
    before, value = found.string[: found.start()], found.end(1)
    if found[1].endswith(":") and _BEGINS_PORT.match(found.string, value) and _IN_HOST.search(before[-250:]):
        return found[0]
    return found[1] + HIDDEN


def redact_and_cut(text: str, limit: int) -> str:
    """Return at most ``limit`` characters of ``text``, without credentials."""
    return redact(text)[:limit]
