"""Redaction of secrets from all text that leaves a process: errors, logs, records in the tracker and Prefect.

Secrets are the user and password of a URL, values after `password=` and the like, authorisation headers, keys of
well-known formats, and the values of environment variables with a secret's name (`OPENAI_API_KEY`, `PGPASSWORD`,
`PREFECT_API_AUTH_STRING` …) wherever they occur, also as one part of `user:password`, encoded, or line by line; and all
parts of the addresses in `GRAFT_ALERTS`.
"""

import json
import logging
import os
import re
import traceback
from base64 import b64encode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from html import escape
from typing import Any
from urllib.parse import quote, quote_plus, unquote

HIDDEN = "***"

SHORTEST, SHORTEST_MIXED = 8, 5
"""Fewest characters of a value to redact, and of one with more than letters or digits: others would occur by chance."""

LONG_USER = 16
"""Fewest characters of the user in an address without a password that is taken for a key."""

_NAMES = re.compile(
    r"(?:PASSWORD|PASSWD|PASSPHRASE|SECRET|TOKEN|API_?KEY|CREDENTIAL)S?(?:_|\d|$)"
    r"|(?:^|_)(?:(?:KEY|SECRET)S?|PWD|CREDS|PAT|JWT|COOKIE|AUTH_STRING|CONNECTION_STRING)(?:_|\d|$)"
    r"|(?:^|_)(?:PASS|AUTH|SAS|DSN|(?:WEBHOOK|APPRISE)(?:_URLS?)?)$",
    re.IGNORECASE,
)
_PLACES = re.compile(r"(?:_FILE|_PATH|_DIR|_SOCK)$|^(?:OLD)?PWD$", re.IGNORECASE)
"""Variables that contain paths."""

_HOST = re.compile(r"(?:localhost|[a-z\d-]+(?:\.[a-z\d-]+)+)(?::\d+)?/?")

# Each pattern begins with parts of bounded length, since texts of any length are searched.
_ADDRESS = re.compile(
    r"(?P<scheme>(?<![\w+.-])[A-Za-z][\w+.-]{0,40}://)"
    r"(?:[^\s/?#\"'@]{0,200}:(?!\d+[/?#])[^\s\"'@]{0,300}@(?:[^\s/?#\"'@]{0,200}@){0,9}"  # may hold / and @
    r"|[^\s/?#\"']{0,300}@)"
)
_ASSIGNED = re.compile(
    r"(?P<name>\b(?:[\w-]{0,60}(?:api[_-]?key|access[_-]?key|account[_-]?key|secret|passw(?:or)?d|passphrase|pwd|auth_string)|(?:access_|auth_|refresh_|api_|id_)?token|(?-i:[A-Z][A-Z0-9_]{0,60}_TOKEN))(?:[\"']?\s*=|[\"']\s*:)\s*[\"']?)"
    r"[^\s\"'&;,)}\]]+",
    re.IGNORECASE,
)
_HEADER = re.compile(
    r"(?P<name>\b(?:authorization|x-api-key|api-key|x-auth-token|private-token|(?:set-)?cookie)[\"']?\s*[:=]\s*[\"']?(?:(?:bearer|basic)\s+)?+|\bbearer\s+)[^\s\"',;]{6,}",
    re.IGNORECASE,
)
_SHAPES = re.compile(
    r"\b(?:sk-[\w-]{16,}|hf_[A-Za-z0-9]{16,}|pn[bu]_[A-Za-z0-9]{16,}|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}"
    r"|A[KS]IA[0-9A-Z]{16}|AIza[\w-]{35}|glpat-[\w-]{16,}|xox[abeprs]-[\w-]{10,}|eyJ[\w-]{10,}\.eyJ[\w-]{10,}\.[\w-]{5,})"
)


_PERCENT = re.compile("%[0-9A-F]{2}")
_BASE64 = re.compile(r"[A-Za-z\d+/_-]+={0,2}")


def redacted(text: str) -> str:
    """`text` with its secrets replaced by HIDDEN."""
    text = _without_encoded(text)
    for value in known_secrets(os.environ):
        text = text.replace(value, HIDDEN)
    text = _ADDRESS.sub(rf"\g<scheme>{HIDDEN}@", text)
    text = _ASSIGNED.sub(rf"\g<name>{HIDDEN}", text)
    text = _HEADER.sub(rf"\g<name>{HIDDEN}", text)
    return _SHAPES.sub(HIDDEN, text)


def known_secrets(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Values of variables with a secret's name, and passwords of URLs in the others; the longest first."""
    return _known_secrets(tuple(environment.items()))


@lru_cache(maxsize=1)
def _known_secrets(variables: tuple[tuple[str, str], ...]) -> tuple[str, ...]:
    plain = _plain_secrets(variables)
    secrets = plain | {form for value in plain for form in _forms(value)}
    return tuple(sorted(secrets, key=lambda value: (-len(value), value)))


@lru_cache(maxsize=1)
def _plain_secrets(variables: tuple[tuple[str, str], ...]) -> frozenset[str]:
    secrets: set[str] = set()
    for name, value in variables:
        named = _NAMES.search(name) and not _PLACES.search(name)
        secrets |= {value, *_parts(value)} if named else set()
        secrets |= set(_tokens(value)) if name == "GRAFT_ALERTS" else set()
        secrets |= {
            *_passwords(value),
            *(match.group().removeprefix(match["name"]) for match in _ASSIGNED.finditer(value)),
        }
    return frozenset(part for value in secrets for part in (value, value.strip()) if _is_distinct(part.strip()))


def _without_encoded(text: str) -> str:
    """`text` without what contains a secret in base64, whatever stands around it: `user:password` in a header."""
    cores = _cores(_plain_secrets(tuple(os.environ.items())))
    if not any(core in text for core in cores):
        return text
    return _BASE64.sub(lambda match: HIDDEN if any(core in match[0] for core in cores) else match[0], text)


@lru_cache(maxsize=1)
def _cores(secrets: frozenset[str]) -> frozenset[str]:
    """The characters in base64 that depend on a secret alone, after 0, 1 or 2 other bytes (RFC 4648, §4 and §5)."""
    cores = set()
    for before in range(3):
        for content in (secret.encode(errors="surrogateescape") for secret in secrets):
            text = b64encode(bytes(before) + content).decode()
            cores.add(text[-(-8 * before // 6) : 8 * (before + len(content)) // 6])
    return frozenset(cores | {core.replace("+", "-").replace("/", "_") for core in cores})


def _parts(value: str) -> list[str]:
    """The password of `user:password`, the path of an address, a webhook's say, and the lines of a key of several."""
    user, separator, password = value.partition(":")
    pair = separator and not password.startswith("//") and not re.search(r"\s", user)
    lines, path = value.splitlines(), re.fullmatch(r"[\w+.-]+://[^/\s]+/(\S+)", value)
    parts = [*([password] if pair else []), *([path[1]] if path else [])]
    return [*parts, *(line for line in lines if len(lines) > 1 and not line.startswith("-----"))]


def _tokens(addresses: str) -> list[str]:
    """Parts of Apprise's addresses: any of them may be a token, except hosts and what begins with #, a channel."""
    rests = [address.partition("://")[2] or address for address in addresses.split()]
    parts = [*rests, *(part for rest in rests for part in re.split("[/:?&=@,;]|(?=#)", rest))]
    return [part for part in parts if not part.startswith("#") and not _HOST.fullmatch(part)]


def _is_distinct(value: str) -> bool:
    return len(value) >= (SHORTEST if value.isalpha() or value.isdigit() else SHORTEST_MIXED)


def _forms(value: str) -> Iterator[str]:
    """As in an address, in JSON, in HTML, and in the text of most errors."""
    content = value.encode(errors="surrogateescape")  # a variable may hold any bytes
    quoted = (quote(content), quote(content, safe=""), quote_plus(content))
    yield from (unquote(value), *quoted, *(_PERCENT.sub(lambda match: match[0].lower(), text) for text in quoted))
    texts = [value, repr(value)[1:-1], *(json.dumps(value, ensure_ascii=ascii)[1:-1] for ascii in (True, False))]
    yield from texts
    yield from (escaped for text in texts for escaped in _escaped(text))


def _escaped(value: str) -> Iterator[str]:
    """As in HTML and XML, with each way to write the quotes."""
    text = escape(value, quote=False)
    for double in ('"', "&quot;", "&#34;"):
        for single in ("'", "&#x27;", "&#39;", "&apos;"):
            yield text.replace('"', double).replace("'", single)


def _passwords(value: str) -> list[str]:
    """Passwords of the addresses in a value, and user names as long as a key."""
    users = (match.group().removeprefix(match["scheme"])[:-1] for match in _ADDRESS.finditer(value))
    pairs = (user.partition(":") for user in users)
    return [password or user for user, _, password in pairs if password or len(user) >= LONG_USER]


@contextmanager
def without_secrets() -> Iterator[None]:
    """Redact the errors raised in the block, since Prefect stores their text.

    An error with a secret is replaced by a RuntimeError that names its class, with the traceback as a note.
    """
    try:
        yield
    except Exception as error:
        if redacted(str(error)) == str(error):
            raise
        clean = RuntimeError(redacted(f"{type(error).__name__}: {error}"))
        clean.add_note(redacted(traceback.format_exc()))
        raise clean from None


def redact_logs() -> None:
    """Redact every record that this process logs from now on, by any logger and handler."""
    before = logging.getLogRecordFactory()
    if getattr(before, "redacts", False):
        return

    def factory(*arguments: Any, **named: Any) -> logging.LogRecord:
        record = before(*arguments, **named)
        try:
            message = record.getMessage()
        except (TypeError, ValueError, KeyError):  # arguments that do not match: logging reports them
            return record
        if (clean := redacted(message)) != message:
            record.msg, record.args = clean, ()
        if record.exc_info and record.exc_info[1] is not None:
            trace = "".join(traceback.format_exception(*record.exc_info)).rstrip("\n")
            if (clean := redacted(trace)) != trace:
                record.exc_text = clean  # used by formatters instead of exc_info
        return record

    factory.redacts = True  # type: ignore[attr-defined]
    logging.setLogRecordFactory(factory)
