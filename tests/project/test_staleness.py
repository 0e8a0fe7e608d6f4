"""Law: a stage runs again when its data, its params or the source that it uses changed, and only then.

The stages, their params and their order are the real ones; what they compute is small (tiny_project).
"""

import shutil
from collections.abc import Iterable
from functools import partial
from pathlib import Path

import pytest
from dvc.repo import Repo

from flows.dvc_stages.pipeline import DvcPipeline
from flows.stages.dvc_yaml import declared_params, stage_of
from tasks.params.file import override
from tasks.params.params import Params
from tests.support.tiers import nightly_but_first
from tests.support.tiny_project import ADDRESSES, REPOSITORY, dvc, graft, ran

AFTER_REWARD = ADDRESSES[ADDRESSES.index("reward@1") :]
AFTER_REWARD.remove("evaluate@before")


def rounds_of(*stages: str) -> set[str]:
    return {f"{stage}@{round}" for stage in stages for round in (1, 2)}


PARAMS = [
    *["seed=1", "problems.siblings=1", "environment.operations=1", "policy.lora.rank=8", "bootstrap.epochs=2"],
    *["search.problems=3", "search.temperature=0.9", "sandbox.seconds=1.5", "operators.calls=4", "shard_size=7"],
    *["rewards.runs=0.5", "influence.selection=positive"],
    *["update.group_size=4", "update.beta=0.5", "evaluation.temperature=0.9", "ppo.gamma=0.9"],
    *["promotion.approve=person", "machine.runner.kind=processes"],
]
"""One of each section, and one of those that several stages see."""


def may_see(stage: str, key: str) -> bool:
    """As `dvc.yaml` says, which tests/unit/flows/test_dvc_yaml.py compares with what was agreed."""
    return any(f"{key}.".startswith(f"{name}.") for name in declared_params(REPOSITORY, stage))


def stale_for_graft(root: Path) -> dict[str, list[str]]:
    """Address → why, for the stages that have a reason of their own."""
    reasons = DvcPipeline(root).stale()
    return {a: why for a, why in reasons.items() if why and not why[0].startswith("after ")}


def stale_for_dvc(root: Path) -> set[str]:
    with Repo(str(root)) as repo:
        return {address for address, why in repo.status().items() if why != ["always changed"]}


@pytest.mark.parametrize("assignment", PARAMS)
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
    key = assignment.partition("=")[0]
    assert reasons.keys() == {address for address in ADDRESSES if may_see(stage_of(address), key)}
    named = "environment" if key.startswith("environment.") else key  # a name, or a mapping with its own params
    assert all(len(why) == 1 and why[0].startswith(f"param {named}: ") for why in reasons.values())


def test_selection_is_switched_on_without_another_search(by_graft: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    params = by_graft / "params.yaml"
    before = params.read_text()
    monkeypatch.chdir(by_graft)
    try:
        override(params, ["influence.selection=positive", "influence.n=7", "influence.completions=3"])
        stale = {address for address, why in DvcPipeline(by_graft).stale().items() if why}
    finally:
        params.write_text(before)
    assert {"search@1", "collect@1", "reward@1"}.isdisjoint(stale)
    assert stale >= {"select@1", "update@1", "search@2"}  # round 2 searches with another policy


def test_each_section_is_tried_here() -> None:
    changed = {assignment.partition("=")[0].partition(".")[0] for assignment in PARAMS}
    # ppo alone does not fit the shipped search, vllm needs an address
    assert changed == Params.model_fields.keys() - {"rounds", "algorithm", "vllm"}


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
    (done / "tasks" / "reward" / "builtin_terms.py").write_text("WEIGHT = 2\n")
    monkeypatch.chdir(done)
    stale = {"reward@1", "reward@2"}
    assert stale_for_dvc(done) == {"sources"}  # DVC sees more when that has run
    told = graft(done, "status").stdout.splitlines()
    assert {line.split()[0] for line in told if "source tasks/reward/builtin_terms.py: changed" in line} == stale
    assert {line.split()[0] for line in told if "up to date" in line} == set(ADDRESSES) - set(AFTER_REWARD)
    graft(done, "stage", *ADDRESSES)
    assert ran(done) == AFTER_REWARD


def test_other_files_make_nothing_stale(done: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (done / "tasks" / "reward" / "unused.py").write_text("WEIGHT = 3\n")
    (done / "flows" / "retrain.py").write_text("# another way to run stages\n")
    (done / "README.md").write_text("read\n")
    monkeypatch.chdir(done)
    assert stale_for_graft(done) == {}
    dvc(done, "repro", "-q")
    assert ran(done) == []


def test_a_change_of_sources_is_named_without_the_cache_too(done: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (done / "tasks" / "reward" / "builtin_terms.py").write_text("WEIGHT = 2\n")
    shutil.rmtree(done / ".dvc" / "cache")
    monkeypatch.chdir(done)
    assert DvcPipeline(done).stale()["reward@1"][0] == "its sources changed"


TERM = """
from tasks.environments.direct import Direct


def polite(problem, text, results):
    return 1


class Own(Direct):
    def prompt(self, question, base, served=False):
        return question

    def parse(self, text):
        return text
"""
USER_FILES = [
    (["environment.name=manners:Own"], "manners.py", set(ADDRESSES) - {"choose"} - rounds_of("update")),
    (['rewards.own=[{name: polite, term: "manners:polite", weight: 0.5}]'], "words.py", rounds_of("reward", "select")),
    (["policy.base=base"], "base/config.json", {"bootstrap"}),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("assignments", "file", "readers"),
    nightly_but_first(USER_FILES),
)
def test_a_file_that_params_name_makes_its_readers_stale_for_graft_and_for_dvc(
    done: Path, monkeypatch: pytest.MonkeyPatch, assignments: list[str], file: str, readers: set[str]
) -> None:
    for name, text in {
        "manners.py": f"import words\n{TERM}",
        "words.py": "",
    }.items():
        (done / name).write_text(text)
    (done / "base").mkdir()
    (done / "base" / "config.json").write_text("{}")
    monkeypatch.chdir(done)
    override(done / "params.yaml", assignments)
    for bring_up in (lambda: dvc(done, "repro", "-q"), lambda: graft(done, "stage", *ADDRESSES)):
        bring_up()
        assert readers <= set(ran(done))
        assert (stale_for_graft(done), stale_for_dvc(done)) == ({}, set())
        dvc(done, "repro", "-q")
        graft(done, "stage", *ADDRESSES)
        assert ran(done) == []
        (done / file).write_text((done / file).read_text() + "\n")
        (done / "unread.py").write_text((done / file).read_text())
        param = assignments[-1].partition("=")[0]
        assert stale_for_graft(done) == {reader: [f"source {param}: changed"] for reader in readers}


def test_a_file_that_changes_while_its_reader_runs_stops_it(done: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(done)
    (done / "manners.py").write_text(f"import words\n{TERM}")
    override(done / "params.yaml", ['rewards.own=[{name: polite, term: "manners:polite", weight: 0.5}]'])
    for command, code in ((partial(graft, done, "stage"), 2), (partial(dvc, done, "repro"), 255)):
        (done / "words.py").write_text("")
        told = command("reward@1", code=code, TINY_EDIT="words.py").stderr
        assert "rewards.own: changed while reward was running, so its result is of neither version" in told
        assert "reward@1" in stale_for_dvc(done)


def test_data_that_changed_makes_its_readers_stale(done: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (done / "examples" / "problems.jsonl").write_text('{"question": "2 and 2?", "answer": 4}\n')
    monkeypatch.chdir(done)
    assert stale_for_graft(done) == {"problems": ["input examples/problems.jsonl: changed"]}
    graft(done, "stage", *ADDRESSES)
    assert ran(done) == ["problems"]  # it wrote the same bytes, so nothing after it had to run


@pytest.mark.parametrize(("first", "second"), [("graft", "dvc"), pytest.param("dvc", "graft", marks=pytest.mark.slow)])
def test_a_param_set_and_set_back_brings_the_first_results_back(done: Path, first: str, second: str) -> None:
    """Whoever wrote them, and whoever restores them."""
    addresses = ["reward@1", "select@1", "update@1"]
    before = (done / "dvc.lock").read_bytes()
    results = [(done / "run/rounds/1" / name).read_bytes() for name in ("rewards.jsonl", "policy/weights.bin")]

    override(done / "params.yaml", ["rewards.runs=0.5"])
    bring_up(done, first, addresses)
    assert ran(done) == addresses
    assert (done / "dvc.lock").read_bytes() != before

    override(done / "params.yaml", ["rewards.runs=0.0"])
    bring_up(done, second, addresses)
    assert ran(done) == []
    assert (done / "dvc.lock").read_bytes() == before
    assert results == [(done / "run/rounds/1" / n).read_bytes() for n in ("rewards.jsonl", "policy/weights.bin")]


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
    for temperature in (0.5, 0.8):
        graft(done, "stage", "-S", f"evaluation.temperature={temperature}", "promote")
        assert ran(done) == ["promote"]
