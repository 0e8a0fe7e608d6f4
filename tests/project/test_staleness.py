"""Law: a stage runs again when its data, its params or the source that it uses changed, and only then.

The stages, their params and their order are the real ones; what they compute is small (tiny_project).
"""

import re
import shutil
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from dvc.repo import Repo

from flows.dvc_stages.pipeline import DvcPipeline
from flows.stages.dvc_yaml import declared_params, parse, stage_of
from flows.stages.sources import SOURCES
from tasks.params.params import Params
from tests.support.params_file import override
from tests.support.tiers import nightly_but_first
from tests.support.tiny_project import ADDRESSES, REPOSITORY, dvc, graft, ran

AFTER_REWARD = ADDRESSES[ADDRESSES.index("reward@1") :]
AFTER_REWARD.remove("evaluate@before")
ROUND = ("search", "collect", "reward", "select", "update", "validate")


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


@cache
def seen_of(stage: str) -> list[str]:
    """As `dvc.yaml` says, which tests/unit/flows/test_dvc_yaml.py compares with what was agreed."""
    return declared_params(REPOSITORY, stage)


def stale_for_graft(root: Path) -> dict[str, list[str]]:
    """Address → why, for the stages that have a reason of their own."""
    reasons = DvcPipeline(root).stale()
    return {a: why for a, why in reasons.items() if why and not why[0].startswith("after ")}


def stale_for_dvc(root: Path) -> dict[str, list[Any]]:
    with Repo(str(root)) as repo:
        return {address: why for address, why in repo.status().items() if why != ["always changed"]}


class Changed(NamedTuple):
    """Address → why it is stale with other params; Graft and DVC agree on the addresses."""

    for_graft: dict[str, list[str]]
    for_dvc: dict[str, list[Any]]


@pytest.fixture
def with_params(by_graft: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Changed]]:
    """The finished project with assignments, or with its params rewritten; afterwards they are as they were."""
    params = by_graft / "params.yaml"
    before = params.read_text()
    monkeypatch.chdir(by_graft)

    def changed(*assignments: str, text: str = before) -> Changed:
        params.write_text(text)
        override(params, assignments)
        found = Changed(stale_for_graft(by_graft), stale_for_dvc(by_graft))
        assert found.for_graft.keys() == found.for_dvc.keys()
        return found

    yield changed
    params.write_text(before)


def test_each_param_makes_stale_what_may_see_it_and_nothing_else(with_params: Callable[..., Changed]) -> None:
    found = with_params(*PARAMS)
    keys = [assignment.partition("=")[0] for assignment in PARAMS]
    for address in ADDRESSES:
        seen = {key: name for key in keys for name in seen_of(stage_of(address)) if f"{key}.".startswith(f"{name}.")}
        named = {"environment" if key.startswith("environment.") else key for key in seen}  # a name, or a mapping
        (why,) = found.for_graft[address]
        assert set(re.findall(r"\bparam ([\w.]+): ", why)) == named, address
        (changes,) = found.for_dvc[address]
        assert changes["changed deps"]["params.yaml"] == dict.fromkeys(seen.values(), "modified"), address


@pytest.mark.parametrize(
    ("assignments", "stale"),
    [
        (
            ["rounds=3"],
            {*(f"{stage}@3" for stage in ROUND), "choose", "baselines"} | rounds_of("validate"),
        ),  # the last?
        # promote: a policy is confirmed on problems that are in no split
        (["problems.dev=4", "evaluation.every=1"], {"problems", "promote"} | rounds_of("validate")),
    ],
)
def test_more_rounds_keep_the_first_ones_and_comparing_them_makes_none_stale(
    with_params: Callable[..., Changed], assignments: list[str], stale: set[str]
) -> None:
    assert with_params(*assignments).for_graft.keys() == stale


def test_selection_is_switched_on_without_another_search(with_params: Callable[..., Changed]) -> None:
    found = with_params("influence.selection=positive", "influence.n=7", "influence.completions=3").for_graft
    assert found.keys() == rounds_of("select")


def test_each_section_is_tried_here() -> None:
    changed = {assignment.partition("=")[0].partition(".")[0] for assignment in PARAMS}
    # ppo alone does not fit the shipped search, vllm needs an address
    assert changed == Params.model_fields.keys() - {"rounds", "algorithm", "vllm"}


def test_comments_and_order_of_params_make_nothing_stale(by_graft: Path, with_params: Callable[..., Changed]) -> None:
    head, *sections = (by_graft / "params.yaml").read_text().split("\n\n")
    assert with_params(text="\n\n".join(["# quite another remark", *reversed(sections), head])) == ({}, {})


def test_params_that_a_file_lacks_are_as_shipped_and_written_where_a_run_begins(done: Path) -> None:
    """By DVC alone, too, which stops at a stage that has a missing param."""
    file, line = done / "params.yaml", "params.yaml: added from this version: update.kl_target, ppo\n"
    whole = file.read_text()
    lacking = re.sub(r"(?m)^  kl_target:.*\n|^ppo:.*\n(  .*\n)+\n", "", whole)
    file.write_text(lacking)
    graft(done, "history")
    told = graft(done, "status").stdout.splitlines()
    assert [row for row in told if "up to date" not in row] == []
    assert file.read_text() == lacking
    for command in (partial(dvc, done, "repro"), partial(graft, done, "stage", "update@1")):
        file.write_text(lacking)
        printed = command().stdout
        assert line in printed
        assert file.read_text() == whole
        assert ran(done) == []


def test_a_source_that_is_imported_inside_a_function_makes_its_stages_stale(
    done: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And what it imports from then on."""
    folder = done / "tasks" / "reward"
    (folder / "builtin_terms.py").write_text("from tasks.reward.more import WEIGHT\n")
    (folder / "more.py").write_text("WEIGHT = 2\n")
    monkeypatch.chdir(done)
    assert stale_for_dvc(done).keys() == {"sources"}  # DVC sees more when that has run
    told = graft(done, "status").stdout.splitlines()
    stale = {line.split()[0] for line in told if "source tasks/reward/builtin_terms.py: changed" in line}
    assert stale == rounds_of("reward")
    assert {line.split()[0] for line in told if "up to date" in line} == set(ADDRESSES) - set(AFTER_REWARD)
    graft(done, "stage", "reward@1")
    assert ran(done) == ["reward@1"]
    (folder / "more.py").write_text("WEIGHT = 3\n")
    assert stale_for_graft(done)["reward@1"] == ["source tasks/reward/more.py: changed"]
    shutil.rmtree(done / ".dvc" / "cache")
    assert stale_for_graft(done)["reward@1"][0] == "its sources changed"


def test_other_files_make_nothing_stale_for_graft_or_for_dvc(done: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (done / "tasks" / "reward" / "unused.py").write_text("WEIGHT = 3\n")
    (done / "flows" / "retrain.py").write_text("# another way to run stages\n")
    (done / "README.md").write_text("read\n")
    before = parse(done / "dvc.lock")["stages"]
    monkeypatch.chdir(done)
    assert stale_for_graft(done) == {}
    dvc(done, "repro", "-q")
    assert ran(done) == []
    assert {**parse(done / "dvc.lock")["stages"], SOURCES: before[SOURCES]} == before


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
    (['rewards.own=[{name: polite, term: "manners:polite", weight: 0.5}]'], "words.py", rounds_of("reward", "select")),
    (["environment.name=manners:Own"], "manners.py", set(ADDRESSES) - {"choose"} - rounds_of("update")),
    (["policy.base=base"], "base/config.json", {"bootstrap"}),
]


@pytest.mark.slow
@pytest.mark.parametrize(("assignments", "file", "readers"), nightly_but_first(USER_FILES))
def test_a_file_that_params_name_makes_its_readers_stale_for_graft_and_for_dvc(
    done: Path, monkeypatch: pytest.MonkeyPatch, assignments: list[str], file: str, readers: set[str]
) -> None:
    for name, text in {"manners.py": f"import words\n{TERM}", "words.py": ""}.items():
        (done / name).write_text(text)
    (done / "base").mkdir()
    (done / "base" / "config.json").write_text("{}")
    monkeypatch.chdir(done)
    override(done / "params.yaml", assignments)
    for bring_up in (lambda: dvc(done, "repro", "-q"), lambda: graft(done, "stage", *ADDRESSES)):
        bring_up()
        assert readers <= set(ran(done))
        assert (stale_for_graft(done), stale_for_dvc(done)) == ({}, {})
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
    (done / "words.py").write_text("")
    override(done / "params.yaml", ['rewards.own=[{name: polite, term: "manners:polite", weight: 0.5}]'])
    told = graft(done, "stage", "reward@1", code=2, TINY_EDIT="words.py").stderr
    assert "rewards.own: changed while reward was running, so its result is of neither version" in told
    assert "reward@1" in stale_for_dvc(done)


def test_data_that_changed_makes_its_readers_stale(done: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (done / "examples" / "problems.jsonl").write_text('{"question": "2 and 2?", "answer": 4}\n')
    monkeypatch.chdir(done)
    assert stale_for_graft(done) == {"problems": ["input examples/problems.jsonl: changed"]}
    graft(done, "stage", "problems", "bootstrap")
    assert ran(done) == ["problems"]  # it wrote the same bytes, so nothing after it had to run


@pytest.mark.parametrize(("first", "second"), [("graft", "dvc"), pytest.param("dvc", "graft", marks=pytest.mark.slow)])
def test_a_param_set_and_set_back_brings_the_first_results_back(done: Path, first: str, second: str) -> None:
    """Whichever of the two wrote them, and whichever restores them: a file and a folder."""
    files = [done / "dvc.lock", done / "run/plots/update@1.csv", done / "run/rounds/1/policy/weights.bin"]
    before = [file.read_bytes() for file in files]
    beta = parse(done / "params.yaml")["update"]["beta"]
    for driver, value, expected in ((first, 0.5, ["update@1"]), (second, beta, [])):
        override(done / "params.yaml", [f"update.beta={value}"])
        if driver == "dvc":
            dvc(done, "repro", "-q", "--single-item", "update@1")
        else:
            graft(done, "stage", "update@1")
        assert ran(done) == expected
        after = [file.read_bytes() for file in files]
        assert (after == before) == (value == beta)
