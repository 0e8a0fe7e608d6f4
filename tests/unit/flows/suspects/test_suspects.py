"""`graft suspects`: what is counted, what is listed, and what is written, in a project of real files."""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from dvc.repo import Repo
from typer.testing import CliRunner

from flows.cli.app import app
from flows.suspects.ballots import Ballots, past_runs, plain_answer
from flows.suspects.suspects import find_suspects, write_excluded
from tasks.artifacts import line_of, write_jsonl, write_text
from tasks.environments.lookup import environment_of
from tasks.errors import GraftError
from tasks.params.file import load_params
from tasks.problems.jsonl import question_key
from tasks.records.evaluation import Attempt
from tasks.records.problems import Problem, Sibling
from tasks.records.programs import Result
from tests.support.groups import make_group
from tests.support.params_file import override
from tests.support.tiny_project import REPOSITORY

WRONG = "Ann has 40 pears and gives 4 away, <b>then</b> finds 2. How many?"


def asked(question: str, answer: float, values: Sequence[float | None], **fields: Any) -> bytes:
    """A line of trajectories."""
    problem = Problem(problem_id="p", question=question, answer=answer, source="test")
    results = [Result(status="error", error="E") if v is None else Result(status="ok", value=v) for v in values]
    return line_of(make_group([f"c{i}" for i in range(len(values))], results, problem=problem, **fields))


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Of 41 lines, the last of which has a wrong key and nearly repeats the one before; two rounds of one past run."""
    Repo.init(str(tmp_path), no_scm=True)
    (tmp_path / "params.yaml").write_text((REPOSITORY / "params.yaml").read_text())
    (tmp_path / "dvc.yaml").write_text((REPOSITORY / "dvc.yaml").read_text())
    override(tmp_path / "params.yaml", ["problems.source=jsonl", "problems.path=own.jsonl"])
    rows = [(f"{number} pears, {number} plums: how many?", 2 * number) for number in range(39)]
    rows += [(WRONG.replace("2", "3"), 39), (WRONG, 380)]
    own = "\n".join(json.dumps({"question": question, "answer": answer}) for question, answer in rows)
    (tmp_path / "own.jsonl").write_text(own)
    for number in (1, 2):
        lines = [asked(question, key, [38 if question == WRONG else key] * 7 + [None]) for question, key in rows]
        keep(tmp_path, f"run/rounds/{number}/trajectories.jsonl", b"".join(lines) + b"\n" * number)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def keep(root: Path, name: str, content: bytes | None) -> None:
    """An output in DVC's cache and in `dvc.lock`; None: in the lock alone."""
    digest = hashlib.md5(content or b"gone").hexdigest()
    if content is not None:
        place = root / ".dvc" / "cache" / "files" / "md5" / digest[:2] / digest[2:]
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content)
    lock = root / "dvc.lock"
    text = lock.read_text() if lock.exists() else "schema: '2.0'\nstages:\n"
    lock.write_text(f"{text}  s{len(text)}:\n    cmd: x\n    outs:\n    - path: {name}\n      md5: {digest}\n")


def test_a_key_that_completions_contradict_is_listed_with_its_line_and_evidence(project: Path) -> None:
    found = find_suspects(project, load_params(project / "params.yaml"), 0.5)
    (suspect,) = found.suspects
    assert (suspect.place, suspect.key, suspect.answer) == ("own.jsonl:41", "380", "38")
    assert (suspect.samples, suspect.share, suspect.key_share) == (16, 14 / 16, 0)
    assert (suspect.rounds, suspect.led, suspect.runs) == (2, 2, 1)
    assert suspect.near == "own.jsonl:40 (unused), key 39"
    assert suspect.probability > 0.5
    assert (found.read, found.missing) == (2, 0)
    everything = find_suspects(project, load_params(project / "params.yaml"), 0).suspects
    assert len(everything) == 41
    assert everything[0] == suspect


def test_files_of_past_runs_count_once_and_lost_ones_are_told(project: Path) -> None:
    write_text(project / ".graft" / "locks" / "000001.lock", (project / "dvc.lock").read_text())
    keep(project, "run/rounds/3/trajectories.jsonl", None)
    found = find_suspects(project, load_params(project / "params.yaml"), 0.5)
    assert (found.read, found.missing) == (2, 1)
    assert found.suspects[0].samples == 16
    assert len(past_runs(project)[0]) == 2


def test_the_command_lists_writes_and_leaves_the_params_alone(project: Path) -> None:
    before = (project / "params.yaml").read_bytes()
    told = CliRunner().invoke(app, ["suspects", "--html", "page.html", "--write", "out.txt"])
    assert told.exit_code == 0, told.output
    assert "own.jsonl:41" in told.output
    assert "1 keys look wrong, by 2 files of completions" in told.output
    page = (project / "page.html").read_text()
    assert "&lt;b&gt;then" in page
    assert "<script" not in page
    assert json.loads(CliRunner().invoke(app, ["suspects", "--json"]).stdout)["suspects"][0]["key"] == "380"
    assert (project / "params.yaml").read_bytes() == before
    evidence = "  # own.jsonl:41: key 380, but 88% of 16 completions in 2 rounds answer 38 (p 0."
    assert evidence in (project / "out.txt").read_text()
    override(project / "params.yaml", ["problems.exclude=out.txt"])
    assert find_suspects(project, load_params(project / "params.yaml"), 0.5).suspects == []


def test_a_file_of_exclusions_keeps_its_lines(project: Path) -> None:
    (suspect,) = find_suspects(project, load_params(project / "params.yaml"), 0.5).suspects
    path = project / "out.txt"
    path.write_text(f"{'a' * 16}  # mine")
    assert write_excluded(path, [suspect]) == 1
    assert write_excluded(path, [suspect]) == 0
    assert [line.split()[0] for line in path.read_text().splitlines()] == ["a" * 16, suspect.digest]
    with pytest.raises(GraftError, match="the environment wrote these problems"):
        write_excluded(project / "other.txt", [suspect.model_copy(update={"place": ""})])


def test_programs_that_solve_the_siblings_confirm_their_answer(tmp_path: Path) -> None:
    """Three of five programs solve both siblings; the others, which agree with the key, solve none."""
    siblings = [Sibling(question=f"sibling {number}?", answer=number) for number in (1, 2)]
    problem = Problem(problem_id="p", question="own?", answer=9, source="test", siblings=siblings)
    results = [Result(status="ok", value=value) for value in (5, 5, 5, 9, 9)]
    solved = [[Result(status="ok", value=n if i < 3 else 7) for n in (1, 2)] for i in range(5)]
    group = make_group(list("abcde"), results, problem=problem, sibling_results=solved)
    write_jsonl(tmp_path / "trajectories.jsonl", [group])
    ballots = Ballots(environment_of("workflow"), [problem])
    ballots.count([{"1/trajectories.jsonl": tmp_path / "trajectories.jsonl"}])
    votes = ballots.votes(question_key("own?"))
    assert (votes.samples, votes.key, votes.rival) == (5, 2, 3)
    assert (votes.confirmed_key, votes.confirmed_rival, votes.has_siblings) == (0, 3, True)


def test_what_a_tree_search_wrote_has_no_vote_and_evaluations_have(tmp_path: Path) -> None:
    problem = Problem(problem_id="t", question="2 and 3?", answer=5, source="test")
    (tmp_path / "trajectories.jsonl").write_bytes(asked("2 and 3?", 5, [6, 6, 5], proposer=["tree", "tree", "sample"]))
    attempt = Attempt(
        problem_id="t",
        code="c",
        greedy=True,
        samples=4,
        right=True,
        siblings_passed=None,
        result=Result(status="ok", value=5.0),
    )
    write_jsonl(tmp_path / "attempts.jsonl", [attempt])
    write_jsonl(tmp_path / "test.jsonl", [problem])
    names = {
        "1/trajectories.jsonl": "trajectories",
        "after/attempts.jsonl": "attempts",
        "run/problems/test.jsonl": "test",
    }
    ballots = Ballots(environment_of("workflow"), [problem])
    ballots.count([{name: tmp_path / f"{file}.jsonl" for name, file in names.items()}])
    votes = ballots.votes(question_key("2 and 3?"))
    assert (votes.samples, votes.key, votes.rival) == (5, 5, 0)


def test_equal_answers_are_one() -> None:
    assert plain_answer("number", 0.1 + 0.2) == plain_answer("number", "0.3")
    assert plain_answer("text", "The  Paris.") == plain_answer("text", "paris")
    assert plain_answer("choice", "The answer is (B)") == plain_answer("choice", "B")
    assert plain_answer("expression", "X") != plain_answer("expression", "x")
