"""Law: a folder with an environment, its params, a reward term and a preset is all that a run on it needs."""

from pathlib import Path

import pytest

from tasks.artifacts import read_jsonl
from tasks.core.metrics_files import read_metrics
from tasks.records.problems import Problem
from tasks.trajectories import Reward
from tests.support.chains import retrained
from tests.support.workspace import make_workspace

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

RECIPE = '''
"""Words, to be repeated."""

from random import Random
from typing import get_args

from pydantic import Field

from tasks.environments.direct import Direct
from tasks.params.sections import Section
from tasks.records.problems import Problem, Split


class Repetition(Direct):
    """A word several times."""

    class Params(Section):
        times: int = Field(2, ge=1, le=5, description="how often")
        letters: str = Field("abcd", min_length=2, description="of the words")
        demonstrations: int = Field(200, ge=1, description="that a policy from scratch learns")

    params = Params()
    terms = {"letters": lambda problem, text, results: float(set(text) <= {*problem.answer})}
    writes_problems = True

    def prompt(self, question, base, served=False):
        return f"{question} > "

    def parse(self, text):
        return text.strip() or None

    def pairs(self, count, seed):
        words = ("".join(Random(seed + n).choices(self.params.letters, k=5)) + str(n) for n in range(count))
        return [(word, " ".join([word] * self.params.times)) for word in words]

    def problems(self, sizes, seed):
        return {
            split: [
                Problem(problem_id=f"{split}{n}", question=f"{split} {q}", answer=a, evaluator="text", source="words")
                for n, (q, a) in enumerate(self.pairs(getattr(sizes, split), seed))
            ]
            for split in get_args(Split)
        }

    def demonstrations(self, solved, seed):
        return self.pairs(self.params.demonstrations, seed + 10**6)
'''

PRESET = """
environment: {name: "recipes.repetition:Repetition", times: 3}
problems: {train: 12, validation: 1, test: 8, siblings: 0}
rounds: 1
policy: {max_new_tokens: 32}
bootstrap: {hidden: 32, epochs: 1}
search: {samples: 4, simulations: 4}
rewards: {environment: {letters: 0.5}}
update: {group_size: 4}
evaluation: {samples: 4, ks: [1, 2]}
machine: {tracking: {uri: ""}}
"""


def test_a_recipe_is_one_folder(tmp_path: Path) -> None:
    assert len((RECIPE + PRESET).splitlines()) < 80
    root = make_workspace(tmp_path / "project", [])
    folder = root / "recipes" / "repetition"
    folder.mkdir()
    (folder / "__init__.py").write_text(RECIPE)
    (folder / "preset.yaml").write_text(PRESET)
    layout = retrained(root, preset="repetition", warns=True)
    assert [len(str(problem.answer).split()) for problem in read_jsonl(layout.problems("train"), Problem)] == [3] * 12
    assert "letters" in read_jsonl(layout.rewards(1), Reward)[0].terms
    assert read_metrics(layout, "bootstrap")["pairs"] == 200
    assert read_metrics(layout, "evaluate@after")["problems"] == 8
