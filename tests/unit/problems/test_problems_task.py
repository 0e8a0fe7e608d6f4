"""The stage `problems`, through its files."""

import json
from pathlib import Path

import pytest

from tasks.artifacts import read_jsonl
from tasks.layout import Layout
from tasks.problems.task import run
from tasks.records.problems import Problem
from tasks.sources.user_modules import digest_modules
from tests.support.stage_params import stage_params

SIZES = {"train": 20, "validation": 8, "test": 12}
FILES = ["metrics/problems.json", *(f"problems/{split}.jsonl" for split in ("dev", "test", "train", "validation"))]


def written(root: Path) -> dict[str, bytes]:
    run_folder = root / "run"
    return {str(p.relative_to(run_folder)): p.read_bytes() for p in sorted(run_folder.rglob("*")) if p.is_file()}


def test_generated_problems_are_the_same_bytes_again_and_dev_problems_change_no_other_split(tmp_path: Path) -> None:
    for name, dev in (("here", 0), ("there", 0), ("with", 15)):
        run(Layout(tmp_path / name), stage_params("problems", problems={**SIZES, "dev": dev}), None)
    here, others = written(tmp_path / "here"), written(tmp_path / "with")
    assert here == written(tmp_path / "there")
    assert list(here) == FILES
    layout = Layout(tmp_path / "here")
    problems = read_jsonl(layout.problems("train"), Problem)
    assert [problem.problem_id[:10] for problem in problems[:2]] == ["train-0000", "train-0001"]
    numbers = {**SIZES, "dev": 0, "templates": pytest.approx(30, abs=12), "with_siblings": 1.0, "test_unseen": 0.25}
    assert json.loads(layout.metrics("problems").read_text()) == numbers
    assert [name for name in FILES if here[name] != others[name]] == ["metrics/problems.json", "problems/dev.jsonl"]
    assert here["problems/dev.jsonl"] == b""
    dev_problems = read_jsonl(Layout(tmp_path / "with").problems("dev"), Problem)
    assert len(dev_problems) == 15
    assert all(problem.seen for problem in dev_problems)


JUDGE = """
class Longest:
    def parse(self, answer):
        return int(answer)

    def score(self, problem, value):
        return float(len(str(value)) <= problem.answer)
"""


def test_the_evaluator_is_written_into_the_problems_and_the_format_is_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lines = [{"question": f"{n}?", "answer": str(n), "note": n} for n in range(9)]
    (tmp_path / "mine.jsonl").write_text("\n".join(map(json.dumps, lines)))
    (tmp_path / "longest_judge.py").write_text(JUDGE)
    own, digest = {"evaluator": "longest_judge:Longest"}, digest_modules(tmp_path, ["longest_judge"])
    sizes = {"source": "jsonl", "path": "mine.jsonl", "train": 2, "validation": 1, "test": 1}
    answers = {}
    caplog.set_level("INFO")
    for chosen in ({"evaluator": "format"}, {"evaluator": "text"}, own):
        run(Layout(tmp_path), stage_params("problems", problems={**sizes, **chosen}), None)
        first = read_jsonl(Layout(tmp_path).problems("train"), Problem)[0]
        answers[first.evaluator] = first.answer
        assert first.evaluator_sha256 == (digest if chosen is own else None)
        assert first.fields == {"note": int(str(first.answer))}
        form = f"question and answer, {first.evaluator}, no siblings"
        assert f"mine.jsonl: 9 problems in the format {form}" in caplog.messages
    assert answers == {"number": int(answers["text"]), "text": answers["text"], own["evaluator"]: int(answers["text"])}


def test_the_param_siblings_counts_paraphrases_of_a_file_and_the_log_has_their_number(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lines = [{"question": f"{n}?", "answer": n, "paraphrases": [f"{n}, is it?", f"Is it {n}?"]} for n in range(4)]
    (tmp_path / "mine.jsonl").write_text("\n".join(map(json.dumps, lines)))
    sizes = {"source": "jsonl", "path": "mine.jsonl", "train": 2, "validation": 1, "test": 1}
    caplog.set_level("INFO")
    for count, made in ((0, "no"), (1, 4), (6, 8)):
        run(Layout(tmp_path), stage_params("problems", problems={**sizes, "siblings": count}), None)
        problems = read_jsonl(Layout(tmp_path).problems("train"), Problem)
        assert {len(problem.siblings) for problem in problems} == {min(count, 2)}
        assert f"mine.jsonl: 4 problems in the format question and answer, number, {made} siblings" in caplog.messages
