"""Redaction of secrets from all text that leaves a process: errors, logs, records in MLflow and Prefect.

Secrets are the user and password of a URL, values after `password=` and the like, authorisation headers, keys of
well-known formats, and the values of environment variables with a secret's name (`OPENAI_API_KEY`, `HF_TOKEN`,
`MLFLOW_TRACKING_PASSWORD` …) wherever they occur.
"""

import logging
import os
import re
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache, partial
from typing import Any
from urllib.parse import quote, unquote

HIDDEN = "***"

SHORTEST = 8
"""Fewest characters of a variable's value to redact: a shorter one would occur by chance."""

_NAMES = re.compile(r"(?:^|_)(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|PWD|CREDENTIALS?|APIKEY)(?:_|$)", re.IGNORECASE)
_PLACES = re.compile(r"(?:_FILE|_PATH|_DIR)$|^(?:OLD)?PWD$", re.IGNORECASE)
"""Variables that contain paths."""

# Each pattern begins with parts of bounded length, since texts of any length are searched.
_ADDRESS = re.compile(
    r"(?P<scheme>(?<![\w+.-])[A-Za-z][\w+.-]{0,40}://)"
    r"(?:[^\s/?#\"'@]{0,200}:(?!\d+[/?#])[^\s\"'@]{0,300}@(?:[^\s/?#\"'@]{0,200}@){0,9}"  # may hold / and @
    r"|[^\s/?#\"']{0,300}@)"
)
_ASSIGNED = re.compile(
    r"(?P<name>\b(?:[\w-]{0,60}(?:api[_-]?key|access[_-]?key|secret|passw(?:or)?d|pwd)|(?:access_|auth_|refresh_|api_|id_)?token|(?-i:[A-Z][A-Z0-9_]{0,60}_TOKEN))[\"']?\s*=\s*[\"']?)"
    r"[^\s\"'&;,)}\]]+",
    re.IGNORECASE,
)
_HEADER = re.compile(
    r"(?P<name>\b(?:authorization|x-api-key|api-key)[\"']?\s*[:=]\s*[\"']?(?:(?:bearer|basic)\s+)?+|\bbearer\s+)[^\s\"',;]{6,}",
    re.IGNORECASE,
)
_SHAPES = re.compile(
    r"\b(?:sk-[\w-]{16,}|hf_[A-Za-z0-9]{16,}|pnu_[A-Za-z0-9]{16,}|gh[pousr]_[A-Za-z0-9]{20,}|AKIA[0-9A-Z]{16})"
)


def redacted(text: str) -> str:
    """`text` with its secrets replaced by HIDDEN."""
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
    found: set[str] = set()
    for name, value in variables:
        named = _NAMES.search(name) and not _PLACES.search(name)
        found |= {value} if named else set(_passwords(value))
    found |= {form(value) for value in found for form in (quote, partial(quote, safe=""), unquote)}
    return tuple(sorted((value for value in found if len(value.strip()) >= SHORTEST), key=lambda v: (-len(v), v)))


def _passwords(value: str) -> list[str]:
    users = (found.group().removeprefix(found["scheme"])[:-1] for found in _ADDRESS.finditer(value))
    return [user.partition(":")[2] for user in users]


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
