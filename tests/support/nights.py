"""Entries of a history."""

from flows.history.run_history import Entry
from tests.support.records import make_promotion
from tests.support.valid_files import ENTRY


def night(number: int, **fields: object) -> Entry:
    """A scheduled run that promoted its policy; any field can be given."""
    when, name = f"2026-12-{number:02} 03:10:00+00:00", f"{number} · learning_rate 0.0005 · 0.200 → 0.300"
    told = {"when": when, "number": number, "name": name, "minutes": 61.25, "decision": make_promotion()}
    return ENTRY.model_copy(update=told | fields)
