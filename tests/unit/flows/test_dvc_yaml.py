"""`dvc.yaml` has the agreed stages, params and rounds."""

from importlib.util import find_spec
from pathlib import Path

import pytest

from flows.stages.dvc_yaml import MODULES, declared_params, definition, parse, round_of, stage_of
from flows.stages.sources import SOURCES
from tasks.errors import GraftError
from tasks.params.file import load_params, restrict
from tasks.params.params import RUN_ONLY

ROOT = Path(__file__).parents[3]


def test_the_stages_are_those_of_dvc_yaml() -> None:
    assert list(parse(ROOT / "dvc.yaml")["stages"]) == [SOURCES, *MODULES]


@pytest.mark.parametrize("stage", MODULES)
def test_the_params_that_a_stage_sees_exist_and_are_none_of_the_machine(stage: str) -> None:
    declared = declared_params(ROOT, stage)
    seen = restrict(load_params(ROOT / "params.yaml"), declared)
    for key in declared:
        value = seen
        for part in key.split("."):
            value = getattr(value, part)
    with pytest.raises(AttributeError):
        getattr(seen, RUN_ONLY)


@pytest.mark.parametrize("stage", ["search", "collect", "reward"])
def test_completions_are_sampled_and_rewarded_without_influence(stage: str) -> None:
    """So that selection can be switched on and off without another search."""
    assert not [key for key in declared_params(ROOT, stage) if key.partition(".")[0] == "influence"]
    assert "run/problems/validation.jsonl" not in definition(parse(ROOT / "dvc.yaml"), stage)["deps"]


@pytest.mark.parametrize("stage", MODULES)
def test_a_stage_runs_one_command_and_writes_its_metrics(stage: str) -> None:
    entry = parse(ROOT / "dvc.yaml")["stages"][stage]
    address = f"{stage}@${{key}}" if "do" in entry else stage
    entry = entry.get("do", entry)
    assert entry["cmd"] == f"sh flows/stage.sh {address}"
    outs = [str(next(iter(out)) if isinstance(out, dict) else out) for out in entry["outs"]]
    assert outs[-1] == f"run/metrics/{address}.json"
    assert all(out.startswith("run/") for out in outs)
    assert entry.get("metrics", []) == (["run/metrics.json"] if stage == "promote" else [])


@pytest.mark.parametrize("stage", MODULES)
def test_a_stage_depends_on_its_sources_and_has_its_module(stage: str) -> None:
    deps = [str(dep) for dep in definition(parse(ROOT / "dvc.yaml"), stage)["deps"]]
    assert [dep for dep in deps if dep.startswith("run/sources")] == [f"run/sources/{stage}.json"]
    spec = find_spec(MODULES[stage])
    assert spec is not None
    assert spec.origin is not None
    assert "\ndef run(layout: Layout, params: Params, round: int | None" in Path(spec.origin).read_text()


def test_an_address_names_a_stage_and_a_round() -> None:
    named = {"problems": ("problems", None), "search@2": ("search", 2)}
    named |= {"evaluate@before": ("evaluate", 0), "evaluate@after": ("evaluate", None)}
    assert {address: (stage_of(address), round_of(address)) for address in named} == named


def test_a_broken_file_is_named_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "dvc.yaml").write_text("stages:\n  problems: {\n")
    with pytest.raises(GraftError, match=r"dvc\.yaml:\d+: not YAML"):
        parse(tmp_path / "dvc.yaml")
