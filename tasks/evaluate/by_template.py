"""Results by template of the generated problems."""

import csv
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import astuple, dataclass, fields
from io import StringIO
from statistics import fmean

from tasks.records.evaluation import ProblemOutcome


@dataclass(frozen=True)
class TemplateRow:
    """The problems of one template, by the generator's name of it."""

    template: str
    operations: int | None
    seen: bool | None
    problems: int
    greedy: float  # share of them that the greedy completion solves
    sampled: float  # mean share of right samples


def by_template(outcomes: Sequence[ProblemOutcome]) -> list[TemplateRow]:
    """A row per template, the hardest for the samples first; problems without a template are left out."""
    groups: dict[str, list[ProblemOutcome]] = defaultdict(list)
    for outcome in outcomes:
        if outcome.template is not None:
            groups[outcome.template].append(outcome)
    rows = [
        TemplateRow(
            template=name,
            operations=members[0].operations,
            seen=members[0].seen,
            problems=len(members),
            greedy=fmean(float(o.greedy) for o in members),
            sampled=fmean(o.correct / o.samples for o in members),
        )
        for name, members in groups.items()
    ]
    return sorted(rows, key=lambda row: (row.sampled, row.greedy, row.template))


def csv_table(rows: Sequence[TemplateRow]) -> str:
    """The rows as CSV with a header; unknown values are empty."""
    file = StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(field.name for field in fields(TemplateRow))
    writer.writerows(astuple(row) for row in rows)
    return file.getvalue()
