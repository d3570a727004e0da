"""The redaction of credentials in text: a single list for logs, records, alerts and pages.

It errs on the side of hiding. Redact first and shorten afterwards, because a shortened credential may lack the part by
which it is recognized.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

DECIDES_NO_ROW = "it hides secrets in messages"
HIDDEN: Final = "***"

SECRET_WORDS: Final = (
    "passwd", "password", "passwort", "passphrase", "passcode", "pwd", "secret", "token", "jaas", "credential",
    "(?<!by)(?<!com)(?<!tres)pass(?![a-z])", "private[._-]?key", "api[._-]?key", "access[._-]?key",
    "account[._-]?key", "auth[._-]?key", "signing[._-]?key", "encryption[._-]?key", "shared[._-]?access",
    "connection[._-]?string", "webhook", "fernet", r"auth\.user\.info",
)  # fmt: skip
"""Words in a setting's name by which its value is a secret: regular expressions, case does not count."""

_NAMED: Final = rf"(?:{'|'.join(SECRET_WORDS)}|(?<![a-z])sig(?:nature)?(?![a-z]))[\w.\-]{{0,80}}"
_QUOTED: Final = r"""(?:"(?:[^"\\\n]|\\.)*"?|'(?:[^'\\\n]|\\.)*'?)"""
_VALUE: Final = rf"(?:{_QUOTED}|[^\s,;&)}}\]]+)"
_QUOTE: Final = r"""(?:\\*["'])?"""
_MEANS: Final = r"[ \t]*(?:[=-]>|[=:]|%3[Dd])[ \t]*"
_STATE_TEXT: Final = """
a an the not no none null missing wrong required expired invalid empty stale too used set unset unknown needed given
hidden rejected refused held incorrect deprecated older newer in at for by of to sent read is was has can must and or
"""
_STATE: Final = rf"(?:{'|'.join(_STATE_TEXT.split())})\b"
"""Words after ``password is`` that describe the password, and are none."""

_SCHEME: Final = r"\b[\w+.-]{1,40}://"
_PORT: Final = r"(?:\d{1,5}|port)(?:[/?#,;)\s\"'\]}<>|…]|[.:](?:\s|$)|$)"
_IN_HOST: Final = re.compile(rf"{_SCHEME}[\w.-]{{0,200}}$")
_BEGINS_PORT: Final = re.compile(_PORT)
_COUNT: Final = re.compile(r"(?i)(?:token|secret|password|credential|key)s[\"']?[ \t]*[=:][ \t]*\d+$")
"""Pattern of what is a number of tokens, and no token: the plural, and digits."""


def _hide_value(found: re.Match[str]) -> str:
    """Hide the value of a name, but not a count, nor the port of a host that is called like a secret."""
    before, value = found.string[: found.start()], found.end(1)
    if _COUNT.search(found[0]):
        return found[0]
    if found[1].endswith(":") and _BEGINS_PORT.match(found.string, value) and _IN_HOST.search(before[-250:]):
        return found[0]
    return found[1] + HIDDEN


@dataclass(frozen=True)
class _Rule:
    """A pattern whose matches are hidden behind their group 1, and texts in lower case of which each match has one.

    ``needs`` are there because a search for plain text is a hundred times faster than a search for a pattern.
    """

    pattern: re.Pattern[str]
    needs: tuple[str, ...]
    shown: str | Callable[[re.Match[str]], str]


def _rule(pattern: str, *needs: str, shown: Callable[[re.Match[str]], str] | None = None) -> _Rule:
    compiled = re.compile(pattern)
    return _Rule(compiled, needs, shown or (r"\1" if compiled.groups else "") + HIDDEN)


def _stem(word: str) -> str:
    plain: list[str] = re.findall("[a-z]+", re.sub(r"\(\?.*?\)", "", word))
    return max(plain, key=len)


_NAMES: Final = (*map(_stem, SECRET_WORDS), "sig")
_ACROSS_LINES: Final = (
    # a block of PEM or PGP, whole or begun
    _rule(r"(-----BEGIN [A-Z ]*PRIVATE KEY(?: BLOCK)?-----)(?:(?s:.*?)-----END [A-Z ]*-----|(?s:.*))", "-----begin "),
    # elements of XML: Hadoop's <name>…key</name><value>…</value>, <password>…</password>, name="password" value="…"
    _rule(
        rf"(?i)(<name>[^<>]{{0,200}}?(?:{_NAMED}|key(?![a-z]))[^<>]{{0,200}}</name>\s*(?:<final>\w*</final>\s*)?<value>)[^<]*",
        "<value>",
    ),
    _rule(rf"(?i)(<[\w:.-]{{0,80}}?{_NAMED}(?:\s[^<>]*)?>)[^<]+(?=</|$)", *_NAMES),
    _rule(rf"""(?i)(name=["'][^"'<>]{{0,200}}?{_NAMED}["']\s+value=){_QUOTED}""", "value="),
    # a name before its own value is no token of a header: hidden, it would show the value
    _rule(
        rf"(?i)\b((?:proxy-)?authorization[\"']?\s*[=:]\s*[\"']?(?:\w+\s+)?)(?!{_NAMED}{_QUOTE}{_MEANS})[\w.~+/=:-]{{4,}}",
        "authorization",
    ),
    _rule(rf"(?i)\b((?:bearer|basic)\s+)(?!{_NAMED}{_QUOTE}{_MEANS})[\w.~+/=-]{{8,}}", "bearer", "basic"),
)
_IN_A_LINE: Final = (
    # before the named values, because its value would end at the blank
    _rule(rf"""(?i)(\b(?:set-)?cookie{_QUOTE}[ \t]*[:=][ \t]*)(?:{_QUOTED}|[^\n]+)""", "cookie"),
    _rule(r"(?i)(\bcurl\b[^\n]{0,200}?\s(?:-u|--user)[ =]?[^\s:]+:)\S+", "curl"),
    # in words: password is 'x', password 'x'
    _rule(rf"""(?i)({_NAMED}{_QUOTE}[ \t]+(?:is|was)[ \t]+(?:now[ \t]+)?)(?!{_STATE}){_VALUE}""", "is", "was"),
    _rule(rf"""(?i)((?:pass(?:word|wd|phrase)|\bpwd|\bsecret)[ \t]+){_QUOTED}""", "pass", "pwd", "secret"),
    # values in braces, as drivers of ODBC take them, and pairs in parentheses, as Scala prints them
    _rule(rf"""(?i)({_NAMED}[ \t]*=[ \t]*){{[^{{}}\n]*}}""", "={", "= {", "=\t{"),
    _rule(rf"""(?i)(\([\w.-]{{0,80}}?{_NAMED},)[^()\n]*(?=\))""", "("),
    # name=value, name: value, "name": "value", name => value, with or without quotes
    _rule(rf"""(?i)({_NAMED}{_QUOTE}{_MEANS}){_VALUE}""", *_NAMES, shown=_hide_value),
    # a line of two columns, as spark-submit prints properties
    _rule(
        rf"(?i)(^[ \t]*[\w-]+\.[\w.-]{{0,80}}?(?:{_NAMED}|[._-]key)(?<=\w)[ \t]+)(?!{_STATE}|[=:*]|->)\S+",
        *_NAMES, "key",
    ),
    # --name value
    _rule(rf"(?i)((?<![\w.-])--?[\w.-]{{0,40}}?{_NAMED}[ \t]+){_VALUE}", "-"),
    # the first half of https://…@host is a token as often as a user
    _rule(r"(?i)(\b(?:git\+)?https?://)[^\s/@\"'<>?#]+(?=@)", "@"),
    _rule(
        r"(?i)(\b(?!(?:abfss?|wasbs?|hdfs|viewfs|ofs|spark|ssh|git\+ssh|sftp)://)[\w+.-]{1,40}://)[^\s/@:\"'<>?#]+(?=@)",
        "@",
    ),
    # scheme://user:password@host; a URL that was cut before its @ differs from host:port by a port that is no number
    _rule(rf"({_SCHEME}[^\s/:@\"']{{0,200}}:)[^\s/@\"']+(?=@)", "@"),
    _rule(rf"({_SCHEME}[^\s/:@\"'\[\]]{{1,200}}:)(?!{_PORT})[^\s/@\"']+", "://"),
    _rule(r"(?i)(\bjdbc:oracle:\w+:[^\s/@]{1,200}/)[^\s@]+(?=@|$)", "jdbc:oracle:"),
    _rule(
        (r"(?i)(https?://(?:hooks\.slack(?:-gov)?\.com|discord(?:app)?\.com/api/webhooks|[\w.-]*webhook\.office"
         r"\.com|outlook\.office\.com/webhook|chat\.googleapis\.com|events\.pagerduty\.com|maker\.ifttt\.com)"
         r"/?)[^\s\"'<>]*"),
        "https:", "http:",
    ),
    # keys that are recognized by their first characters
    _rule(r"\beyJ[\w-]{5,}(?:\.[\w-]*){0,2}", "eyj"),
    _rule(r"\b(?:AKIA|ASIA)[0-9A-Z]{12,}\b", "akia", "asia"),
    _rule(r"\b(?:xox[abeoprs]-|xapp-|glpat-|glptt-)[\w-]{6,}", "xox", "xapp-", "glp"),
    _rule(
        (r"\b(?:gh[pousr]_|github_pat_|hf_|npm_|pypi-|dapi(?=[0-9a-f]{16})|shp(?:at|ca|pa|ss)_|dckr_pat_|do[opr]_v1_)"
         r"[\w-]{6,}"),
        "_", "pypi-", "dapi",
    ),
    _rule(r"\b(?:(?:hv[bsr]|ya29)\.[\w-]{8,}|SG\.[\w-]{16,}\.[\w-]{16,}|SG\.[\w-]{20,})", "hv", "ya29.", "sg."),
    _rule(r"\b(?:sk|rk)[-_](?:(?=[\w-]{0,40}\d)[\w-]{12,}|[\w-]{20,})", "sk-", "sk_", "rk-", "rk_"),
    _rule(r"\bAIza[\w-]{30,}", "aiza"),
    # the shape of an Azure account key: 64 bytes in base 64
    _rule(r"(?<![\w/+])[\w/+]{86}==(?!=)", "=="),
)  # fmt: skip


def redact(text: str) -> str:
    """Replace all text that looks like a credential in ``text``, which may have several lines, by asterisks."""
    lower = text.lower()
    rules = [rule for rule in _IN_A_LINE if any(need in lower for need in rule.needs)]
    text = _hide(text, _ACROSS_LINES)
    return "\n".join(_hide(line, rules) for line in text.split("\n")) if rules else text


def _hide(text: str, rules: Iterable[_Rule]) -> str:
    lower = text.lower()
    for rule in rules:
        if any(need in lower for need in rule.needs):
            text = rule.pattern.sub(rule.shown, text)
    return text


def redact_and_cut(text: str, limit: int) -> str:
    """Return at most ``limit`` characters of ``text``, without credentials."""
    return redact(text)[:limit]
