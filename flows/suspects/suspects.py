"""Problems whose key looks wrong, by the completions of all recorded rounds: `graft suspects`."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple, get_args

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from rich.console import Console

from flows.suspects.ballots import Ballots, past_runs
from tasks.artifacts import read_jsonl, read_text, write_text
from tasks.core.terminal import answer_text, make_table, print_text, shortened
from tasks.environments.lookup import environment_in
from tasks.errors import GraftError, one_line
from tasks.layout import Layout
from tasks.params.params import Params
from tasks.problems.excluded import digest_line, read_excluded
from tasks.problems.jsonl import make_reader, problems_by_place
from tasks.problems.near_duplicates import near_duplicates
from tasks.programs.operators.builtin import without_context
from tasks.records.problems import Problem, Split
from tasks.records.record import Record
from tasks.statistics.wrong_key import wrong_key_probabilities

WIDTH, MAX_CHARACTERS = 120, 80
"""Characters of a line where the output is no terminal, and of a question."""


class Suspect(Record):
    """A problem, and what speaks against its key."""

    problem_id: str
    place: str  # file and line; "" of a problem that the environment wrote
    split: str  # of the last run, or "unused"
    digest: str  # of the line, for problems.exclude
    question: str  # the one with the doubtful key: its own, or a sibling's
    key: str
    answer: str  # the most frequent other one
    probability: float  # that the key is wrong
    samples: int  # completions
    share: float  # of them with that answer …
    key_share: float  # … and with the key
    confirmed: int  # of them with that answer which solve most siblings
    rounds: int
    led: int  # rounds in which that answer was the most frequent
    runs: int
    near: str  # a problem that nearly repeats it, with its split and key; "" without one

    @property
    def evidence(self) -> str:
        """What speaks against the key, in words."""
        return one_line(
            f"key {self.key}, but {self.share:.0%} of {self.samples} completions in {self.rounds} rounds answer "
            f"{self.answer} (p {self.probability:.2f})"
        )


class SuspectList(Record):
    """The suspects, the most doubtful first."""

    suspects: list[Suspect]
    read: int  # files of completions
    missing: int  # outputs of runs that are in DVC's cache no more

    @property
    def summary(self) -> str:
        """How many there are, and by how many files."""
        gone = f"; {self.missing} more outputs are gone from DVC's cache" if self.missing else ""
        return f"{len(self.suspects)} keys look wrong, by {self.read} files of completions{gone}"


class Doubt(NamedTuple):
    """The question of a problem whose key is the most doubtful."""

    chance: float
    key: str  # of the question, in the ballots
    variant: Problem


def find_suspects(root: Path, params: Params, above: float) -> SuspectList:
    """The problems whose key is wrong with a probability of `above` or more, by all rounds at hand.

    Those of `problems.path` as it is now, or that the environment wrote for the last run.
    """
    layout, is_file = Layout(root), params.problems.source == "jsonl"
    files = {split: layout.problems(split) for split in get_args(Split)}
    last = {split: read_jsonl(file, Problem) for split, file in files.items() if file.is_file()}
    places = {problem.problem_id: problem for problems in last.values() for problem in problems}
    if is_file:
        reader = make_reader(root, params)
        reader.sandbox = None  # nothing is tried out
        places = problems_by_place(root, params, reader)
    splits = {problem.problem_id: split for split, problems in last.items() for problem in problems}
    ballots, (runs, gone) = Ballots(environment_in(root, params), places.values()), past_runs(root)
    read = ballots.count(runs)
    doubts = {place: doubt for place, doubt in doubts_of(places, ballots).items() if doubt.chance >= above}
    named = {problem.problem_id: place for place, problem in places.items()}
    near = {
        own: f"{named[other]} ({splits.get(other, 'unused')}), key {answer_text(places[named[other]].answer)}"
        for own, other in near_duplicates([places[place] for place in doubts], places.values()).items()
    }
    suspects = list[Suspect]()
    for place, (chance, key, variant) in sorted(doubts.items(), key=lambda item: (-item[1].chance, item[0])):
        ballot, votes, answer = ballots.of[key], ballots.votes(key), ballots.rival(key)
        suspects.append(
            Suspect(
                problem_id=places[place].problem_id,
                place=place if is_file else "",
                split=splits.get(places[place].problem_id, "unused"),
                digest=digest_line(places[place]),
                question=shortened(one_line(without_context(variant.question)), MAX_CHARACTERS),
                key=answer_text(variant.answer),
                answer=shortened(answer, MAX_CHARACTERS),
                probability=round(chance, 3),
                samples=votes.samples,
                share=votes.rival / votes.samples,
                key_share=votes.key / votes.samples,
                confirmed=votes.confirmed_rival,
                rounds=ballot.rounds,
                led=ballot.led[answer],
                runs=len(ballot.runs),
                near=near.get(places[place].problem_id, ""),
            )
        )
    return SuspectList(suspects=suspects, read=read, missing=gone)


def doubts_of(places: Mapping[str, Problem], ballots: Ballots) -> dict[str, Doubt]:
    """The most doubtful question of each problem that was asked."""
    asked = [(place, *own) for place, problem in places.items() for own in ballots.asked(problem)]
    worst: dict[str, Doubt] = {}
    chances = wrong_key_probabilities([ballots.votes(key) for _, key, _ in asked])
    for (place, key, variant), chance in zip(asked, chances, strict=True):
        if place not in worst or chance > worst[place].chance:
            worst[place] = Doubt(chance, key, variant)
    return worst


def print_findings(found: SuspectList, most: int, console: Console) -> None:
    """Print the most doubtful ones, and what was read."""
    console.width = console.width if console.is_terminal else WIDTH
    table = make_table("p", "key", "most answer", "of samples", "key's", "rounds", "where", wrap="where")
    for each in found.suspects[:most]:
        near = f"; nearly repeats {each.near}" if each.near else ""
        where = f"{each.place or each.problem_id} ({each.split}) {each.question}{near}"
        shares = (f"{each.share:.0%} of {each.samples}", f"{each.key_share:.0%}", f"{each.led} of {each.rounds}")
        table.add_row(f"{each.probability:.2f}", each.key, each.answer, *shares, where)
    if found.suspects:
        console.print(table)
    print_text(found.summary)


def write_page(path: Path, found: SuspectList) -> None:
    """Write all suspects as one HTML file without scripts or external resources."""
    folder = FileSystemLoader(Path(__file__).parent)
    environment = Environment(loader=folder, autoescape=True, undefined=StrictUndefined)
    write_text(path, environment.get_template("suspects.html.jinja").render(found=found))


def write_excluded(path: Path, suspects: Iterable[Suspect]) -> int:
    """Add the suspects to a file of `problems.exclude`, which keeps its lines, and return how many were new."""
    before = read_text(path) if path.exists() else ""
    known = read_excluded(path.parent, path.name) if before else ()
    new = [suspect for suspect in suspects if suspect.digest not in known]
    if any(not suspect.place for suspect in new):
        raise GraftError("suspects: --write names lines of a file, but the environment wrote these problems: mend it")
    lines = [f"{each.digest}  # {each.place}: {each.evidence}\n" for each in new]
    write_text(path, "".join([before, "\n" if before and not before.endswith("\n") else "", *lines]))
    return len(new)
