"""Stage `bootstrap`, through its files."""

import json
import shutil
from pathlib import Path

import pytest

from tasks.artifacts import digest_path, read_json, write_jsonl
from tasks.bootstrap.solved_problems import select_solutions
from tasks.bootstrap.task import run
from tasks.errors import GraftError
from tasks.layout import Layout
from tasks.model.checkpoints.base_model import load_model
from tasks.model.policy import load_policy
from tasks.model.sampling.sampler import Request, sample
from tasks.model.text import decode, encode_prompt
from tasks.params.params import Params
from tasks.params.sections import Lora
from tasks.programs.contract import HEADER
from tasks.records.policy import Lineage
from tasks.records.problems import Problem, Sibling
from tasks.records.search import Workflow
from tests.support.models import same_logits, save_base
from tests.support.policies import MakePolicy
from tests.support.records import make_workflow
from tests.support.stage_params import stage_params

PRODUCT, SUM = (HEADER + f"    a = n[0] {symbol} n[1]\n    return a\n" for symbol in "*+")


LORA = Lora(rank=4, alpha=8.0, targets="all-linear")


def params(base: str = "scratch", epochs: int | str = 2, lora: Lora | None = LORA) -> Params:
    small = {"hidden": 32, "layers": 1, "vocabulary": 300, "epochs": epochs, "learning_rate": 0.02}
    policy = {"base": base, "lora": lora, "prompt": {"style": "plain", "examples": 1}}
    return stage_params("bootstrap", bootstrap=small, policy=policy)


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tasks.bootstrap.training.BATCH", 4)


def numbers(layout: Layout) -> dict[str, float]:
    found: dict[str, float] = json.loads(layout.metrics("bootstrap").read_text())
    return found


def problem(name: str, words: str, answers: list[int]) -> Problem:
    questions = [words.format(3 + i, 40 + i) for i in range(len(answers))]
    siblings = [Sibling(question=q, answer=a) for q, a in zip(questions[1:], answers[1:], strict=True)]
    return Problem(problem_id=name, question=questions[0], answer=answers[0], source="test", siblings=siblings)


PROBLEMS = [problem("product", "{} boxes of {} pens?", [120, 164]), problem("sum", "{} and {}?", [43, 45])]
PROBLEMS.append(problem("unsolved", "{} or {}?", [0, 1]))


def workflow(problem_id: str, code: str) -> Workflow:
    return make_workflow(code, problem_id=problem_id, proposer="coldstart")


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    layout = Layout(tmp_path)
    write_jsonl(layout.problems("train"), PROBLEMS)
    write_jsonl(layout.coldstart / "index.jsonl", [workflow("product", PRODUCT), workflow("sum", SUM)])
    return layout


def test_a_policy_from_scratch_learns_the_solutions_and_its_folder_is_as_documented(layout: Layout) -> None:
    run(layout, params(epochs="auto"), None)
    policy = load_policy(layout.policy(0))
    asked = [Request(encode_prompt(policy, f"{p.question}\n"), 0) for p in PROBLEMS[:2]]
    written = sample(policy, asked, 0.0, 64, "test")
    assert [decode(policy, c.tokens) for c in written] == [PRODUCT, SUM]
    assert numbers(layout)["pairs"] == 2
    assert numbers(layout)["loss"] < 1
    folder = layout.policy(0)
    plain = {"config.json", "generation_config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"}
    ours = {"lineage.json", "adapter/adapter_config.json", "adapter/adapter_model.safetensors"}
    assert {p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()} == plain | ours
    lineage = read_json(folder / "lineage.json", Lineage)
    assert (lineage.parent, lineage.round, lineage.base) == (None, 0, "scratch")
    sizes = {name: p.numel() for name, p in policy.model.named_parameters()}
    assert numbers(layout)["adapter_parameters"] == sum(size for name, size in sizes.items() if "lora_" in name)
    assert numbers(layout)["parameters"] == sum(size for name, size in sizes.items() if "lora_" not in name)
    config = policy.model.peft_config["default"]
    assert (config.r, config.lora_alpha) == (4, 8.0)


def test_a_wrong_target_fails_before_the_training(layout: Layout) -> None:
    wrong = LORA.model_copy(update={"targets": ["q_proj", "query"]})
    message = r"^policy\.lora\.targets: 'query' is no linear module of the model; it has down_"
    with pytest.raises(GraftError, match=message):
        run(layout, params(lora=wrong, epochs=10_000), None)
    assert not layout.policy(0).exists()


def test_a_test_question_without_room_is_named_before_the_training(layout: Layout) -> None:
    """700 words, each of several tokens for a tokenizer that has never seen them."""
    write_jsonl(layout.problems("test"), [problem("long", "{} and {}" + " zyxwvu" * 700, [43])])
    with pytest.raises(
        GraftError, match=r"^test: test problem long: a question of \d{4} tokens, but scratch holds 2048"
    ):
        run(layout, params(epochs=10_000), None)
    assert not layout.policy(0).exists()


def test_a_second_run_writes_the_same_bytes_and_another_seed_others(layout: Layout) -> None:
    written = []
    for seed in (0, 0, 1):
        run(layout, params().model_copy(update={"seed": seed}), None)
        written.append((digest_path(layout.policy(0)), digest_path(layout.metrics("bootstrap"))))
    assert written[0] == written[1]
    assert written[0][0] != written[2][0]


@pytest.mark.slow
def test_an_earlier_policy_is_continued_and_named_as_parent(layout: Layout, tmp_path: Path) -> None:
    run(layout, params(), None)
    earlier = shutil.copytree(layout.policy(0), tmp_path / "earlier")
    run(layout, params(str(earlier)).model_copy(update={"seed": 5}), None)
    before, after = (read_json(folder / "lineage.json", Lineage) for folder in (earlier, layout.policy(0)))
    assert (after.parent, after.round, after.base, after.holds) == (before.version, 0, "scratch", before.holds)
    for part in ("adapter", "model.safetensors"):
        assert digest_path(layout.policy(0) / part) == digest_path(earlier / part)


def test_without_solutions_it_fails_and_writes_nothing(layout: Layout) -> None:
    write_jsonl(layout.coldstart / "index.jsonl", [])
    with pytest.raises(GraftError, match=r"^bootstrap: .* solved none .* kind number.*; set policy\.base to .*\Z"):
        run(layout, params(), None)
    assert not layout.policy(0).exists()


def test_a_base_is_copied_with_a_new_adapter(layout: Layout, tmp_path: Path, make_policy: MakePolicy) -> None:
    save_base(make_policy, tmp_path / "base", "gpt2")
    base = load_model(str(tmp_path / "base"))
    run(layout, params(str(tmp_path / "base"), epochs="auto"), None)
    policy = load_policy(layout.policy(0))
    assert same_logits(policy.model, base)
    assert not (layout.policy(0) / "model.safetensors").exists()
    assert numbers(layout).keys() == {"parameters", "adapter_parameters"}
    assert numbers(layout)["parameters"] == sum(p.numel() for p in base.parameters())


@pytest.mark.parametrize("content", ["", "(" * 5000, "#" * 30_000, PRODUCT + "\n"])
def test_a_damaged_workflow_is_skipped_with_a_warning(
    layout: Layout, content: str, caplog: pytest.LogCaptureFixture
) -> None:
    product, total = workflow("product", PRODUCT), workflow("sum", SUM)
    write_jsonl(layout.coldstart / "index.jsonl", [product.model_copy(update={"code": content}), total])
    assert select_solutions(PROBLEMS, layout.coldstart) == [(PROBLEMS[1], SUM)]
    assert f"workflow {product.workflow_id} of product: changed" in caplog.text
