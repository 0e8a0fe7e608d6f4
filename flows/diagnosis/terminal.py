"""A diagnosis in the terminal: the verdicts first, then what they rest on."""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from flows.diagnosis.record import (
    DiagnosedCompletion,
    Diagnosis,
    ProblemDiagnosis,
    loss_lines,
    number_text,
    printable,
    summary_lines,
)
from tasks.core.terminal import make_table
from tasks.programs.contract import line_of

STYLES = {"ok": "green", "warning": "yellow", "red flag": "bold red", "no verdict": "dim"}
CODE_WIDTH = 27  # signs of a workflow: with it a line has 80 columns at most


def print_diagnosis(diagnosis: Diagnosis, console: Console) -> None:
    """Print the whole page, in 80 columns. Tokens are those of the best and the worst completion of each problem."""
    for line in summary_lines(diagnosis):
        console.print(printable(line), highlight=False, markup=False)
    console.print()
    console.print(_verdicts(diagnosis))
    console.print()
    console.print(_performance(diagnosis))
    console.print()
    if lines := loss_lines(diagnosis.step):
        console.print(_loss(lines))
        console.print()
    for asked in diagnosis.problems:
        _print_problem(asked, console)


def _verdicts(diagnosis: Diagnosis) -> Table:
    table = make_table("verdict", "sign", wrap="sign")
    for verdict in diagnosis.verdicts:
        text = Text()
        text.append(verdict.sign, style="bold")
        text.append(f": {verdict.value} (healthy: {verdict.healthy})\n")
        text.append(f"{verdict.flag}: " if verdict.flag else "", style="bold red")
        text.append(printable(verdict.why), style="dim")
        text.append(f" → {verdict.remedy}" if verdict.remedy else "", style="bold")
        level = verdict.level.upper() if verdict.flag else verdict.level
        table.add_row(Text(level, style=STYLES[verdict.level]), text)
    return table


def _performance(diagnosis: Diagnosis) -> Table:
    """Before and after, on the same prompts with the same seeds."""
    table = make_table("problem", "greedy", f"right of {diagnosis.samples}", "mean", "std", "distinct")
    for asked in diagnosis.problems:
        size = sum(completion.count for completion in asked.completions)
        table.add_row(
            asked.problem_id,
            _change(*("–" if is_right is None else "right" if is_right else "wrong" for is_right in asked.greedy)),
            _change(*("–" if right is None else str(right) for right in asked.right)),
            number_text(asked.mean),
            number_text(asked.std),
            f"{len(asked.completions)}/{size}",
        )
    before, after = diagnosis.before, diagnosis.after
    table.add_section()
    table.add_row(
        "all",
        _change(*(f"{score.greedy_share:.2f}" if score else "–" for score in (before, after))),
        _change(*(f"{score.sampled_share:.3f}" if score else "–" for score in (before, after))),
    )
    return table


def _loss(lines: Sequence[tuple[str, str, str]]) -> Table:
    table = make_table("loss and gradient", "before", "after the step")
    for line in lines:
        table.add_row(*line)
    return table


def _print_problem(asked: ProblemDiagnosis, console: Console) -> None:
    console.print(
        f"{asked.problem_id}: {printable(asked.question)} ({printable(asked.answer)})", highlight=False, markup=False
    )
    table = make_table("×", "reward", "baseline", "advantage", "log p", "log ref", "workflow")
    for completion in asked.completions:
        table.add_row(
            str(completion.count),
            "failed" if completion.reward is None else f"{completion.reward:.3f}",
            number_text(completion.baseline),
            f"{completion.advantage:+.2f}",
            f"{completion.logprob:.2f}",
            f"{completion.reference:.2f}",
            Text(line_of(completion.code, CODE_WIDTH)),
        )
    console.print(table)
    for completion in {id(c): c for c in (asked.completions[0], asked.completions[-1])}.values():
        terms = ", ".join(f"{name} {number_text(value)}" for name, value in completion.terms.items())
        cut = ", cut at its length limit" if completion.cut else ""
        learned = "" if completion.learned == completion.advantage else f", learned as {completion.learned + 0.0:.3g}"
        told = f"advantage {completion.advantage:+.2f}{learned}: {terms}; gave {completion.result}{cut}"
        console.print(printable(told), highlight=False, markup=False)
        console.print(_tokens(completion), highlight=False)
    console.print()


def _tokens(completion: DiagnosedCompletion) -> Text:
    """Each token with its log-probabilities, policy/reference."""
    text = Text()
    for token in completion.tokens:
        text.append(f"⟨{printable(token.text)}⟩", style="bold")
        text.append(f" {token.policy:.2f}/{token.reference:.2f} ", style="dim")
    return text


def _change(before: str, after: str) -> str:
    return before if before == after else f"{before} → {after}"
