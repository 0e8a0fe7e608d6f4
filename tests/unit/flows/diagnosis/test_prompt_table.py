"""`graft doctor --policy` tries each form of the prompt that fits, and writes nothing."""

from pathlib import Path

import pytest

from flows.diagnosis.prompt_table import print_trials
from tasks.errors import GraftError
from tasks.params.file import override
from tests.support.policies import MakePolicy
from tests.support.stage_params import REPOSITORY


def test_each_form_that_fits_has_a_row(
    tmp_path: Path, make_policy: MakePolicy, capsys: pytest.CaptureFixture[str]
) -> None:
    policy = make_policy(full=True)
    policy.tokenizer.chat_template = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"
    for part in (policy.model, policy.tokenizer):
        part.save_pretrained(tmp_path / "base")
    params = tmp_path / "params.yaml"
    params.write_text((REPOSITORY / "params.yaml").read_text())
    with pytest.raises(GraftError, match=r"^policy\.base: is scratch, whose prompt is the question; name a model"):
        print_trials(tmp_path)
    small = [
        "environment.stories=fixed",
        "problems.train=12",
        "problems.validation=1",
        "problems.test=1",
        "environment.operations=1",
    ]
    chosen = [f"policy.base={tmp_path / 'base'}", "policy.max_new_tokens=8", "policy.prompt.examples=1"]
    override(params, [*small, *chosen])
    before = sorted(tmp_path.rglob("*"))
    print_trials(tmp_path)
    assert sorted(tmp_path.rglob("*")) == before
    rows = [line.split() for line in capsys.readouterr().out.splitlines() if line[:5] in ("plain", "turns", "chat ")]
    assert {row[0] for row in rows} == {"plain", "turns"}  # the instructions of chat are too long for this base
    assert all(float(row[1]) == 0 for row in rows)  # a random policy writes no program
