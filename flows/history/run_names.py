"""Names of runs: `12 · update.learning_rate 0.0005 · 0.495 → 0.575`, the number, what changed, and pass@1 greedy.

The last part is that of the first and the final policy on the test problems, once they are known.
"""

from collections.abc import Iterable, Mapping

from flows.history.changes import RunInputs, changed_files, changed_params
from tasks.core.terminal import shortened

MAX_PARAMS = 3  # of more, only their number
MAX_CHARACTERS = 24  # of a param's value


def run_name(number: int, change: str, headline: Mapping[str, float] | None = None) -> str:
    """The name of a run. `headline`: the numbers of `run/metrics.json`, if it succeeded."""
    result = [format_result(headline["before"], headline["greedy"])] if headline else []
    return " · ".join([str(number), change, *result])


def format_result(before: float, after: float) -> str:
    """pass@1 greedy of the first and the final policy."""
    return f"{before:.3f} → {after:.3f}"


def summarise_change(before: RunInputs | None, now: RunInputs) -> str:
    """What differs from the last run that succeeded, in a few words."""
    if before is None:
        return "first run"
    params = changed_params(before, now).items()
    named = [f"{_tail(key, now.params)} {shortened(value, MAX_CHARACTERS)}" for key, (_, value) in params]
    named += [f"other {_tail(key, now.params)}" for key in changed_files(before, now)]
    more = [f"+{len(named) - MAX_PARAMS}"] if len(named) > MAX_PARAMS else []
    return ", ".join([*named[:MAX_PARAMS], *more, *other_inputs(before, now)]) or "same params"


def other_inputs(before: RunInputs, now: RunInputs) -> list[str]:
    """The kinds of inputs that differ, besides params."""
    differ = {"other problems": before.problems != now.problems, "other source": before.sources != now.sources}
    return [name for name, true in differ.items() if true]


def _tail(key: str, names: Iterable[str]) -> str:
    """The shortest end of a dotted name that no other name has; `rounds.last` is `rounds`, as with -S."""
    if key == "rounds.last":
        return "rounds"
    parts = key.split(".")
    ends = (".".join(parts[i:]) for i in reversed(range(len(parts))))
    others = [name for name in names if name != key]
    return next((end for end in ends if not any(name.endswith(f".{end}") or name == end for name in others)), key)
