"""What looks like a credential is hidden, whoever is about to show it: one list, for logs, records, alerts and pages.

It errs on the side of hiding. Redact first and shorten after: of a credential that was cut, the part that gives it away
may be gone.
"""

from __future__ import annotations

import re
from typing import Final

HIDDEN: Final = "***"

SECRET_WORDS: Final = (
    "passwd", "password", "passwort", "passphrase", "pwd", "secret", "token", "jaas", "credential", "private[._-]?key",
    "api[._-]?key", "access[._-]?key", "account[._-]?key", "shared[._-]?access", "connection[._-]?string", "webhook",
    "fernet", r"sas[._-]?token", r"fixed\.token",
)  # fmt: skip
"""In the name of a setting they say that its value is a secret: regular expressions, case does not count."""

_NAMED: Final = rf"(?:{'|'.join(SECRET_WORDS)}|\bsig(?:nature)?\b)[\w.\-]{{0,80}}"
_VALUE: Final = r"""(?:"(?:[^"\\\n]|\\.)*"?|'(?:[^'\\\n]|\\.)*'?|[^\s,;&)}\]]+)"""
_JWT: Final = r"\beyJ[\w-]{5,}(?:\.[\w-]*){0,2}"

_RULES: Final = (
    # a pem block, whole or begun
    (re.compile(r"(-----BEGIN [A-Z ]*PRIVATE KEY-----)(?:.*?-----END [A-Z ]*-----|.*)", re.DOTALL), r"\1"),
    # before what is named: its value would end at the blank
    (re.compile(r"(?i)\b((?:proxy-)?authorization[\"']?\s*[=:]\s*[\"']?(?:\w+\s+)?)[\w.~+/=:-]{4,}"), r"\1"),
    (re.compile(r"(?i)\b((?:bearer|basic)\s+)[\w.~+/=-]{8,}"), r"\1"),
    # name=value, name: value, "name": "value", name => value, --name value, with or without quotes
    (re.compile(rf"""(?i)({_NAMED}["']?[ \t]*(?:=>|[=:])[ \t]*){_VALUE}"""), r"\1"),
    (re.compile(rf"(?i)(--?[\w.-]{{0,40}}{_NAMED}[ \t]+){_VALUE}"), r"\1"),
    # scheme://user:password@host; one that was cut before its @ is told from host:port by what is no number
    (re.compile(r"(\b[\w+.-]{1,40}://[^\s/:@\"']{0,200}:)[^\s/@\"']+(?=@)"), r"\1"),
    (re.compile(r"(\b[\w+.-]{1,40}://[^\s/:@\"'\[\]]{1,200}:)(?!\d{1,5}(?:[/?#,;)\s\"'\]]|$))[^\s/@\"']+"), r"\1"),
    (re.compile(r"(?i)(https?://(?:hooks\.slack(?:-gov)?\.com|discord(?:app)?\.com/api/webhooks|[\w.-]*webhook\.office"
                r"\.com|outlook\.office\.com/webhook|chat\.googleapis\.com|events\.pagerduty\.com|maker\.ifttt\.com)"
                r"/?)[^\s\"'<>]*"), r"\1"),
    (re.compile(_JWT), ""),
    (re.compile(r"\b(?:AKIA|ASIA)[0-9A-Z]{12,}\b"), ""),
    (re.compile(r"\b(?:xox[abeoprs]-|gh[pousr]_|github_pat_|glpat-|dapi(?=[0-9a-f]{16}))[\w-]{6,}"), ""),
    # the shape of an Azure account key: 64 bytes in base 64
    (re.compile(r"(?<![\w/+])[\w/+]{86}==(?!=)"), ""),
)  # fmt: skip


def redacted(text: str) -> str:
    """``text`` with whatever looks like a credential replaced by asterisks; a line, or several."""
    for pattern, kept in _RULES:
        text = pattern.sub(kept + HIDDEN, text)
    return text


def redacted_and_cut(text: str, limit: int) -> str:
    """At most ``limit`` characters of ``text``, without credentials."""
    return redacted(text)[:limit]
