"""The sentence of a run about its selection: what decided, of how many samples, and what influence said.

From the metrics of the stages `select` and the params; none of a run whose metrics lack the number of samples.
"""

from collections.abc import Mapping, Sequence

Numbers = Mapping[str, float]
"""Metrics of a stage `select`."""

KEPT_BY_SHARE = {
    "top": "those with the highest influence were kept",
    "bottom": "those with the lowest influence were kept",
    "random": "a random share was kept",
}


def selection_sentence(params: Mapping[str, str], rounds: Mapping[int, Numbers]) -> str | None:
    """The sentence. `rounds`: the metrics of `select` by round."""
    known = {number: rounds[number] for number in sorted(rounds) if "samples" in rounds[number]}
    selection = params.get("influence.selection")
    if not known or selection is None:
        return None
    if selection == "none":
        return "Nothing was measured or dropped (influence.selection none)."
    if selection == "audit":
        return _of_audit(known)
    decided = known if selection == "random" else {n: metrics for n, metrics in known.items() if "measured" in metrics}
    if not decided:
        return (
            f"Nothing was dropped (influence.selection {selection}): influence was measured in no round, because "
            "training or validation has no sample with a signal."
        )
    counted, rest = _kept(decided), _others(known, decided)
    if selection in KEPT_BY_SHARE:
        share = f"influence.selection {selection}, influence.share {params.get('influence.share', '?')}"
        decider = "Chance" if selection == "random" else "TracIn"
        text = f"{decider} decided ({share}): {KEPT_BY_SHARE[selection]}, {counted}"
    elif ":" in selection:
        text = f"{selection} decided (influence.selection): {counted} were kept"
    else:
        text = f"TracIn decided (influence.selection {selection}): {counted} were kept, {_rule(params)}"
    return f"{text}{rest}{_influence(known)}."


def _of_audit(known: Mapping[int, Numbers]) -> str:
    errs = [number for number, metrics in known.items() if metrics.get("audit_err")]
    decided = {number: known[number] for number in errs if "measured" in known[number]}
    if decided:
        where = _rounds([*decided], len(known))
        return (
            f"TracIn decided {where}, where rewards err: {_kept(decided)} were kept, those with influence above 0"
            f"{_others(known, decided)}{_influence(known)}."
        )
    right = [number for number, metrics in known.items() if metrics.get("audit_right")]
    unclear = [number for number in known if number not in (*right, *errs)]
    answers = [
        f"{verb} {_rounds(numbers, len(known))}"
        for verb, numbers in (
            ("found rewards right", right),
            ("could not tell", unclear),
            ("found that they err", errs),
        )
        if numbers
    ]
    text = f"Nothing was dropped: the audit {_listed(answers)}"
    return f"{text}{', where influence could not be measured' if errs else ''}{_influence(known)}."


def _kept(rounds: Mapping[int, Numbers]) -> str:
    selected, samples = (sum(metrics.get(name, 0) for metrics in rounds.values()) for name in ("selected", "samples"))
    return f"{selected:,.0f} of {samples:,.0f} samples"


def _others(known: Mapping[int, Numbers], decided: Mapping[int, Numbers]) -> str:
    return "; nothing was dropped in the other rounds" if len(decided) < len(known) else ""


def _rule(params: Mapping[str, str]) -> str:
    """Which samples `positive` keeps; control drops only what is clearly below 0."""
    controlled = params.get("influence.fdr_control", "").lower() == "true"
    held_out = params.get("influence.validation") == "held_out"
    return f"those with influence {'not clearly below 0' if controlled and held_out else 'above 0'}"


def _influence(known: Mapping[int, Numbers]) -> str:
    """What influence said in the last round that measured it."""
    last = next((number for number in reversed([*known]) if "measured" in known[number]), None)
    if last is None:
        return ""
    metrics, where = known[last], "in the last round" if last == max(known) else f"in round {last}"
    text = f"; influence was measured on {metrics['measured']:,.0f} of {metrics['samples']:,.0f} samples {where}"
    share = metrics.get("influence_positive_share")
    return text if share is None else f"{text}, {100 * (1 - share):.0f} % of them not above 0"


def _rounds(numbers: Sequence[int], rounds: int) -> str:
    if len(numbers) == rounds > 1:
        return f"in all {rounds} rounds"
    return f"in round{'s' if len(numbers) > 1 else ''} {_listed([*map(str, numbers)])}"


def _listed(texts: Sequence[str]) -> str:
    return " and ".join([part for part in (", ".join(texts[:-1]), texts[-1]) if part])
