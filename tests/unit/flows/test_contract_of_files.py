"""The contract of problem files, from the files of a project to the lines for a person."""

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import get_args

import pytest

from flows.contract import check_contract
from flows.history.changes import RunInputs
from tasks.artifacts import write_json, write_jsonl
from tasks.errors import GraftError
from tasks.layout import Layout
from tasks.params.file import load_params
from tasks.problems.digests import digest_problem_files
from tasks.problems.task import read_problems
from tasks.records.problems import Split
from tasks.statistics.problem_profile import profile_of
from tests.support.params_file import override
from tests.support.stage_params import REPOSITORY

WORDS = [f"{a}{b}{c}" for a in "bdfgklmn" for b in "aeiou" for c in "lmnrst"]
Write = Callable[..., None]


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    """A project whose champion learnt from the 150 train problems of `data/a.jsonl`."""
    shutil.copy(REPOSITORY / "params.yaml", tmp_path)
    sizes = ["problems.train=150", "problems.validation=20", "problems.test=30"]
    override(tmp_path / "params.yaml", [*sizes, "problems.source=jsonl", "problems.path=data"])
    layout = Layout(tmp_path)
    write(layout, "a.jsonl", range(200), WORDS[:120])
    learn(layout)
    write_json(layout.champion / "profile.json", profile_of(problems(layout)["train"]))
    return layout


def write(layout: Layout, name: str, numbers: range, words: list[str], length: int = 12, answer: object = 7) -> None:
    rows = []
    for number in numbers:
        chance = random.Random(number)
        text = " ".join(chance.choices(words, k=length + chance.randrange(length)))
        rows.append({"question": f"{number} {text}?", "answer": answer})
    (layout.root / "data").mkdir(exist_ok=True)
    (layout.root / "data" / name).write_text("".join(json.dumps(row) + "\n" for row in rows))


def params(layout: Layout, *assignments: str):  # type: ignore[no-untyped-def]
    override(layout.root / "params.yaml", assignments)
    return load_params(layout.root / "params.yaml")


def problems(layout: Layout):  # type: ignore[no-untyped-def]
    return read_problems(layout, params(layout))


def learn(layout: Layout) -> None:
    """As a run that succeeded leaves it."""
    for split, listed in problems(layout).items():
        write_jsonl(layout.problems(split), listed)
    files = digest_problem_files(layout.root, params(layout))
    write_json(layout.root / ".graft" / "inputs.json", RunInputs(problems=files, params={}, sources={}))


def breaches(layout: Layout, *assignments: str) -> list[str]:
    return check_contract(layout, params(layout, *assignments))


def test_like_problems_break_nothing_and_others_what_differs(layout: Layout) -> None:
    sizes = ["problems.train=300", "problems.validation=50", "problems.test=50"]
    write(layout, "b.jsonl", range(200, 400), WORDS[:120])
    assert breaches(layout, *sizes) == []
    write(layout, "b.jsonl", range(200, 400), WORDS[120:])
    (line,) = breaches(layout)
    assert line.startswith("data/b.jsonl: vocabulary of 200 new questions is 0.")
    assert line.endswith(" from what the champion learnt from, more than machine.contract.vocabulary 0.3")
    assert breaches(layout, "machine.contract.vocabulary=1") == []
    write(layout, "b.jsonl", range(200, 400), WORDS[:120], length=40, answer=0.5)
    answers, length = breaches(layout)
    assert answers.startswith("data/b.jsonl: 200 of 200 new answers are of kinds that the champion did not learn: ")
    assert length.startswith("data/b.jsonl: length of 200 new questions is 1.00 from")
    with pytest.raises(GraftError, match=r"^data/b\.jsonl: 200 .*; data/b.jsonl: length .*; correct the files, or run"):
        breaches(layout, "machine.contract.action=stop")
    assert breaches(layout, "machine.contract.length=1", "machine.contract.action=warn") == [answers]
    assert breaches(layout, "machine.contract.action=none") == []


def test_lines_added_to_a_file_are_compared_without_the_others(layout: Layout) -> None:
    old = (layout.root / "data/a.jsonl").read_text()
    write(layout, "a.jsonl", range(200, 320), WORDS[120:])
    (layout.root / "data/a.jsonl").write_text(old + (layout.root / "data/a.jsonl").read_text())
    (line,) = breaches(layout, "problems.train=270")
    assert line.startswith("data/a.jsonl: vocabulary of 120 new questions is 0.")
    learn(layout)
    assert breaches(layout) == []


def test_without_a_profile_and_with_few_problems_nothing_is_compared(layout: Layout) -> None:
    write(layout, "b.jsonl", range(200, 290), WORDS[120:])
    assert breaches(layout, "problems.train=240") == []
    write(layout, "b.jsonl", range(200, 400), WORDS[120:])
    (layout.champion / "profile.json").unlink()
    assert breaches(layout) == []


def test_test_problems_that_nearly_repeat_a_train_problem_are_counted(layout: Layout) -> None:
    repeats = [problem.question.replace("?", " indeed?") for problem in problems(layout)["train"]]
    rows = [json.dumps({"question": question, "answer": 7}) + "\n" for question in repeats]
    (layout.root / "data/b.jsonl").write_text("".join(rows))
    (line,) = breaches(layout, "problems.test=100")
    count, _, rest = line.removeprefix("data: ").partition(
        " of 100 test problems nearly repeat one that is learnt from"
    )
    assert int(count) > 20
    first, _, second = rest.removeprefix(" (").removesuffix("); remove one of each two").partition(" repeats ")
    split = {problem.problem_id: name for name, listed in problems(layout).items() for problem in listed}
    assert (split[first], split[second] in ("train", "validation")) == ("test", True)


def test_a_file_that_did_not_change_is_not_read_and_a_damaged_record_does_not_stop_a_run(layout: Layout) -> None:
    for split in get_args(Split):
        layout.problems(split).write_text("damaged")
    assert breaches(layout) == []
    write(layout, "b.jsonl", range(200, 400), WORDS[:120])
    assert breaches(layout) == []
    (layout.root / "data/b.jsonl").write_text("no json")
    with pytest.raises(GraftError, match=r"b\.jsonl:1: not JSON"):
        breaches(layout)
