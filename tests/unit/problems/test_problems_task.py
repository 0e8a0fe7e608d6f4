"""The stage `problems`, through its files."""

import json
import shutil
from pathlib import Path
from typing import get_args

import pytest

from flows.stages.sources import listed_digests
from tasks.artifacts import read_jsonl, write_json, write_text
from tasks.known_problems import NOTHING
from tasks.layout import KNOWN, Layout
from tasks.problems.task import UNRECORDED, run
from tasks.records.problems import Problem, Split
from tasks.sources.user_modules import digest_modules
from tests.support.stage_params import REPOSITORY, shipped_params, stage_params

SIZES, NONE = {"train": 20, "validation": 8, "test": 12}, {"dev": 0, "confirm": 0}
NAMES = ["confirm.jsonl", "demonstrations.json", "dev.jsonl", "known.json", "replay.jsonl", "test.jsonl", "train.jsonl"]
NAMES += ["validation.jsonl"]
FILES = ["metrics/problems.json", *(f"problems/{name}" for name in NAMES)]


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
    numbers = {
        **SIZES,
        "dev": 0,
        "confirm": 0,
        "templates": pytest.approx(30, abs=12),
        "with_siblings": 1.0,
        "test_unseen": 0.25,
    }
    assert json.loads(layout.metrics("problems").read_text()) == numbers
    assert [name for name in FILES if here[name] != others[name]] == ["metrics/problems.json", "problems/dev.jsonl"]
    assert here["problems/dev.jsonl"] == b""
    dev_problems = read_jsonl(Layout(tmp_path / "with").problems("dev"), Problem)
    assert len(dev_problems) == 15
    assert all(problem.seen for problem in dev_problems)


def test_a_run_that_continues_a_policy_splits_by_its_record_and_an_older_policy_has_none(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    layout, base = Layout(tmp_path), tmp_path / "champion" / "policy"
    lines = [{"question": f"{n}?", "answer": n} for n in range(40)]
    (tmp_path / "mine.jsonl").write_text("\n".join(map(json.dumps, lines)))
    sizes = {"source": "jsonl", "path": "mine.jsonl", "train": 10, "validation": 5, "test": 25}
    before: dict[str, set[str]] = {}
    for seed, warns in ((0, True), (1, False)):
        write_json(base / "lineage.json", {"of": "an earlier policy"})
        params = stage_params("problems", problems=sizes, policy={"base": "champion/policy"}, seed=seed)
        caplog.clear()
        run(layout, params, None)
        assert (UNRECORDED.format(base="champion/policy") in caplog.messages) is warns
        splits = {
            split: {p.problem_id for p in read_jsonl(layout.problems(split), Problem)} for split in get_args(Split)
        }
        assert not before or splits["test"] == before["test"]
        before = splits
        write_text(base / KNOWN, layout.carried(KNOWN).read_text())


def test_the_record_of_the_policy_that_is_continued_makes_problems_stale_and_no_later_stage(tmp_path: Path) -> None:
    shutil.copy(REPOSITORY / "dvc.yaml", tmp_path)
    base, params = tmp_path / "latest" / "policy", shipped_params(policy={"base": "latest/policy"})
    write_json(base / "lineage.json", {"of": "an earlier policy"})
    before = {stage: listed_digests(tmp_path, stage, params) for stage in ("problems", "coldstart", "search")}
    write_json(base / KNOWN, NOTHING)
    after = {stage: listed_digests(tmp_path, stage, params) for stage in before}
    assert [stage for stage in before if before[stage] != after[stage]] == ["problems"]


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
