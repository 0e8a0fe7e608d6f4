"""The benchmark on GSM8K: worked solutions in tags, and problems that are none of them."""

import json
from pathlib import Path

import pytest

from benchmarks.gsm8k import EXAMPLES, SETTINGS, TRAIN, prepare, table, worked_example
from benchmarks.learning import LearningRun
from tasks.environments.tagged_answer import TaggedAnswer
from tasks.environments.tags import hard_format, mark
from tasks.errors import GraftError
from tasks.params.file import load_params

pytestmark = pytest.mark.nightly

LINE = {
    "question": "How many in all?",
    "answer": "Sold 48/2 = <<48/2=24>>24 in May.\nIn all 1,000+24 = <<1000+24=1024>>1024.\n#### 1,024",
}


def test_a_worked_example_is_what_the_environment_reads() -> None:
    completion = worked_example(json.dumps(LINE))["completion"]
    thoughts = "Sold 48/2 = 24 in May.\nIn all 1,000+24 = 1024."
    assert completion == f"<think>\n{thoughts}\n</think>\n<answer>\n1024\n</answer>"
    assert TaggedAnswer().parse(completion) == 1024
    assert (hard_format(completion, strict=True), mark(completion, strict=True)) == (0.5, 0.5)  # the most there is


def test_worked_examples_are_not_trained_on(tmp_path: Path) -> None:
    train = tmp_path / "train.jsonl"
    lines = [json.dumps(LINE | {"question": f"{n}?"}) for n in range(10)]
    train.write_text("\n".join(lines) + "\n")
    root = prepare(tmp_path / "run", train, [*SETTINGS, "seed=3"])
    examples, kept = ([json.loads(line)["question"] for line in (root / name).open()] for name in (EXAMPLES, TRAIN))
    assert (examples, kept) == ([f"{n}?" for n in range(4)], [f"{n}?" for n in range(4, 10)])
    params = load_params(root / "params.yaml")
    assert (params.environment, params.seed, params.evaluation.ks) == ("answer", 3, [1, 8])
    train.write_text("\n".join(lines[:4]))
    with pytest.raises(GraftError, match=r"train\.jsonl: 4 lines; the first 4 are worked examples"):
        prepare(tmp_path / "other", train, SETTINGS)


def test_the_table_has_a_row_for_each_measure() -> None:
    names = ("pass_at_1_greedy", "pass_at_1", "maj_at_8")
    numbers = {f"{name}{end}": 0.5 for name in names for end in ("", "_low", "_high")}
    assert table(LearningRun(numbers, numbers, 1.0), 7).row_count == 3
