"""Law: a stage runs again when its data, its params or the source that it uses changed, and only then.

The stages, their params and their order are the real ones; what they compute is small (tiny_project).
"""

import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from dvc.repo import Repo

from flows.dvc_stages.pipeline import DvcPipeline
from tasks.params.file import override
from tasks.params.params import Params
from tests.support.tiny_project import ADDRESSES, dvc, graft, ran

AFTER_REWARD = ADDRESSES[ADDRESSES.index("reward@1") :]
AFTER_REWARD.remove("evaluate@before")


def rounds_of(*stages: str) -> set[str]:
    return {f"{stage}@{round}" for stage in stages for round in (1, 2)}


EVALUATE = {"evaluate@before", "evaluate@after"} | rounds_of("validate")
PARAMS = {
    "seed=1": set(ADDRESSES) - rounds_of("reward", "select"),
    "rewards.own_sha256=other": rounds_of("reward"),
    "problems.siblings=1": {"problems"},
    "problems.operations=1": {"problems"},
    "policy.lora.rank=8": {"bootstrap"},
    "policy.base=someone/model": {"coldstart", "bootstrap"},
    "policy.max_new_tokens=32": {"bootstrap", "promote"} | rounds_of("search", "reward", "select", "update") | EVALUATE,
    "coldstart.operations=1": {"coldstart"},
    "coldstart.em_passes=2": {"coldstart"},
    "bootstrap.epochs=2": {"bootstrap"},
    "search.samples=4": rounds_of("search"),
    "search.temperature=0.9": rounds_of("search", "select", "update"),
    "sandbox.seconds=1.5": {"coldstart", "promote"} | rounds_of("search") | EVALUATE,
    "operators.calls=4": {"promote"} | rounds_of("search") | EVALUATE,
    "operators.backend=policy": {"promote"} | rounds_of("search", "collect") | EVALUATE,
    "rewards.runs=0.5": rounds_of("reward"),
    "environment=answer": {"bootstrap", "promote"} | EVALUATE | rounds_of("search", "collect", "reward"),
    "shard_size=7": rounds_of("search", "collect", "reward"),
    "environment_sha256=other": {"bootstrap", "promote"} | EVALUATE | rounds_of("search", "collect", "reward"),
    "bootstrap.malformed_share=0.1": {"bootstrap"},
    "rewards.strict=true": rounds_of("reward"),
    'rewards.own=[{name: polite, term: "manners:polite", weight: 0.5}]': rounds_of("reward"),
    "rewards.seconds=5": rounds_of("reward"),
    "rewards.model={base: someone/judge, weight: 0.5, batch: 8, label: null}": rounds_of("reward"),
    "rewards.model_sha256=other": rounds_of("reward"),
    "rewards.failed_limit=0.5": rounds_of("search", "reward"),
    "rewards.agreement=false": rounds_of("collect", "reward"),
    "influence.selection=none": rounds_of("search", "select"),
    "influence.validation=same_batch": rounds_of("search", "select"),
    "influence.n=64": rounds_of("search", "select"),
    "influence.completions=3": rounds_of("search", "select"),
    "influence.loss=contrastive": rounds_of("select"),
    "influence.fdr_control=false": rounds_of("select"),
    "influence.train_on_validation=false": rounds_of("select"),
    "influence.exclude_self=false": rounds_of("select"),
    "influence.memory_budget=64": rounds_of("select"),
    "grpo.beta=0.5": rounds_of("update"),
    "grpo.loss=grpo": rounds_of("select", "update"),
    "grpo.advantages=none": rounds_of("select", "update"),
    "grpo.truncated=leave_out": rounds_of("select", "update"),
    "grpo.schedule=cosine": rounds_of("update"),
    "grpo.warmup_steps=2": rounds_of("update"),
    "grpo.bf16=true": rounds_of("update"),
    "grpo.micro_batch_tokens=1024": rounds_of("select", "update"),
    "grpo.processes=2": rounds_of("select", "update"),
    "grpo.on_invalid_completion=skip": rounds_of("select", "update"),
    "grpo.group_size=4": rounds_of("search", "collect", "update"),
    "evaluation.samples=30": EVALUATE,
    "evaluation.temperature=0.9": EVALUATE,
    "evaluation.resamples=500": {"choose", "promote"} | EVALUATE,
    "tracking.experiment=other": set(),
    "runner.kind=threads": set(),
    "runner.workers=3": set(),
    "schedule.overlap=skip": set(),
    "schedule.retries=0": set(),
    "schedule.delay=1": set(),
    "schedule.seconds={update: 5}": set(),
}


def by_section(assignments: Iterable[str]) -> list[Any]:
    """The first param of each section in every run of the tests, the others in the slow ones."""
    first = {assignment.partition(".")[0]: assignment for assignment in reversed(list(assignments))}.values()
    return [a if a in first else pytest.param(a, marks=pytest.mark.slow) for a in assignments]


def stale_for_graft(root: Path) -> dict[str, list[str]]:
    """Address → why, for the stages that have a reason of their own."""
    reasons = DvcPipeline(root).stale()
    return {a: why for a, why in reasons.items() if why and not why[0].startswith("after ")}


def stale_for_dvc(root: Path) -> set[str]:
    with Repo(str(root)) as repo:
        return set(repo.status())


@pytest.mark.parametrize("assignment", by_section(PARAMS))
def test_a_param_makes_stale_what_may_see_it_and_nothing_else(
    by_graft: Path, monkeypatch: pytest.MonkeyPatch, assignment: str
) -> None:
    params = by_graft / "params.yaml"
    before = params.read_text()
    monkeypatch.chdir(by_graft)
    try:
        override(params, [assignment])
        reasons = stale_for_graft(by_graft)
        assert stale_for_dvc(by_graft) == reasons.keys()
    finally:
        params.write_text(before)
    assert reasons.keys() == PARAMS[assignment]
    key = assignment.partition("=")[0]
    assert all(len(why) == 1 and why[0].startswith(f"param {key}: ") for why in reasons.values())


def test_each_section_is_tried_here() -> None:
    changed = {assignment.partition("=")[0].partition(".")[0] for assignment in PARAMS}
    assert changed == Params.model_fields.keys() - {"rounds"}


def test_comments_and_order_of_params_make_nothing_stale(done: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    params = done / "params.yaml"
    head, *sections = params.read_text().split("\n\n")
    params.write_text("\n\n".join(["# quite another remark", *reversed(sections), head]))
    monkeypatch.chdir(done)
    assert stale_for_graft(done) == {}
    assert stale_for_dvc(done) == set()


def test_a_source_that_is_imported_inside_a_function_makes_its_stages_stale(
    done: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (done / "tasks" / "rewards" / "builtin_terms.py").write_text("WEIGHT = 2\n")
    monkeypatch.chdir(done)
    stale = {"reward@1", "reward@2"}
    assert stale_for_dvc(done) == {"sources"}  # DVC sees more when that has run
    told = graft(done, "status").stdout.splitlines()
    assert {line.split()[0] for line in told if "source tasks/rewards/builtin_terms.py: changed" in line} == stale
    assert {line.split()[0] for line in told if "up to date" in line} == set(ADDRESSES) - set(AFTER_REWARD)
    graft(done, "stage", *ADDRESSES)
    assert ran(done) == AFTER_REWARD


def test_other_files_make_nothing_stale(done: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (done / "tasks" / "rewards" / "unused.py").write_text("WEIGHT = 3\n")
    (done / "flows" / "retrain.py").write_text("# another way to run stages\n")
    (done / "README.md").write_text("read\n")
    monkeypatch.chdir(done)
    assert stale_for_graft(done) == {}
    dvc(done, "repro", "-q")
    assert ran(done) == []


@pytest.mark.slow
def test_dvc_runs_what_an_edited_source_concerns(done: Path) -> None:
    (done / "tasks" / "rewards" / "builtin_terms.py").write_text("WEIGHT = 2\n")
    dvc(done, "repro", "-q")
    assert ran(done) == AFTER_REWARD


def test_a_change_of_sources_is_named_without_the_cache_too(done: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (done / "tasks" / "rewards" / "builtin_terms.py").write_text("WEIGHT = 2\n")
    shutil.rmtree(done / ".dvc" / "cache")
    monkeypatch.chdir(done)
    assert DvcPipeline(done).stale()["reward@1"][0] == "its sources changed"


@pytest.mark.slow
def test_the_users_own_source_makes_the_stages_stale_that_call_it(done: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By its digest in params.yaml, which `graft` writes; what it imports of the project counts, too."""
    (done / "manners.py").write_text("from words import KIND\ndef polite(problem, text, results):\n    return 1\n")
    (done / "words.py").write_text("KIND = ['please']\n")
    graft(done, "stage", "-S", 'rewards.own=[{name: polite, term: "manners:polite", weight: 0.5}]', *ADDRESSES)
    assert ran(done) == AFTER_REWARD
    for name in ("manners.py", "words.py"):
        (done / name).write_text((done / name).read_text() + "# other words\n")
        told = graft(done, "status").stdout.splitlines()
        assert {line.split()[0] for line in told if " param rewards.own_sha256: " in line} == {"reward@1", "reward@2"}
        monkeypatch.chdir(done)
        assert stale_for_dvc(done) == {"reward@1", "reward@2"}
        graft(done, "stage", *ADDRESSES)
        assert ran(done) == AFTER_REWARD


def test_data_that_changed_makes_its_readers_stale(done: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (done / "examples" / "problems.jsonl").write_text('{"question": "2 and 2?", "answer": 4}\n')
    monkeypatch.chdir(done)
    assert stale_for_graft(done) == {"problems": ["input examples/problems.jsonl: changed"]}
    graft(done, "stage", *ADDRESSES)
    assert ran(done) == ["problems"]  # it wrote the same bytes, so nothing after it had to run


def test_a_project_that_never_ran_says_so(done: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (done / "dvc.lock").unlink()
    monkeypatch.chdir(done)
    assert set(map(tuple, DvcPipeline(done).stale().values())) == {("never run",)}


@pytest.mark.parametrize(("first", "second"), [("graft", "dvc"), pytest.param("dvc", "graft", marks=pytest.mark.slow)])
def test_a_param_set_and_set_back_brings_the_first_results_back(done: Path, first: str, second: str) -> None:
    """Whoever wrote them, and whoever restores them."""
    addresses = ["reward@1", "select@1", "update@1"]
    before = (done / "dvc.lock").read_bytes()
    results = [(done / "run/rounds/1" / name).read_bytes() for name in ("rewarded.jsonl", "policy/weights.bin")]

    override(done / "params.yaml", ["rewards.runs=0.5"])
    bring_up(done, first, addresses)
    assert ran(done) == addresses
    assert (done / "dvc.lock").read_bytes() != before

    override(done / "params.yaml", ["rewards.runs=0.0"])
    bring_up(done, second, addresses)
    assert ran(done) == []
    assert (done / "dvc.lock").read_bytes() == before
    assert results == [(done / "run/rounds/1" / n).read_bytes() for n in ("rewarded.jsonl", "policy/weights.bin")]


def bring_up(root: Path, driver: str, addresses: Iterable[str]) -> None:
    if driver == "dvc":
        dvc(root, "repro", "-q", "--single-item", *addresses)
    else:
        graft(root, "stage", *addresses)


def test_more_rounds_keep_the_first_ones(done: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    override(done / "params.yaml", ["rounds=3"])
    monkeypatch.chdir(done)
    more = {"search@3", "collect@3", "reward@3", "select@3", "update@3", "validate@3", "choose"}
    assert stale_for_graft(done).keys() == stale_for_dvc(done) == more | rounds_of("validate")  # is it the last?


def test_comparing_rounds_makes_no_round_stale(done: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    override(done / "params.yaml", ["problems.dev=4", "evaluation.every=1"])
    monkeypatch.chdir(done)
    assert stale_for_graft(done).keys() == stale_for_dvc(done) == {"problems"} | rounds_of("validate")


def test_promote_is_never_taken_from_the_run_cache(done: Path) -> None:
    """It looks at the champion, which is no dependency."""
    for resamples in (500, 10000):
        graft(done, "stage", "-S", f"evaluation.resamples={resamples}", "promote")
        assert ran(done) == ["promote"]
