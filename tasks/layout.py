"""Where each artifact of a run lies, under one root."""

from dataclasses import dataclass
from pathlib import Path

from tasks.records import Split


@dataclass(frozen=True)
class Layout:
    """Paths of a run's artifacts. Round 0 holds only the policy that the run starts from, and empty standings."""

    root: Path

    @property
    def sources(self) -> Path:
        """Folder with a file for each stage: the source files that it computes with, and their digests."""
        return self.root / "run" / "sources"

    def problems(self, split: Split) -> Path:
        return self.root / "run" / "problems" / f"{split}.jsonl"

    @property
    def coldstart(self) -> Path:
        """Workflows that were found without a policy."""
        return self.root / "run" / "coldstart" / "workflows"

    def round(self, number: int) -> Path:
        return self.root / "run" / "rounds" / str(number)

    def policy(self, number: int) -> Path:
        return self.round(number) / "policy"

    def workflows(self, number: int) -> Path:
        """Folder with `index.jsonl`, a line for each workflow, and `trees.jsonl`."""
        return self.round(number) / "workflows"

    def tree(self, number: int) -> Path:
        """Picture of one telling search tree of a round."""
        return self.round(number) / "tree.svg"

    def trajectories(self, number: int) -> Path:
        return self.round(number) / "trajectories.jsonl"

    def rewarded(self, number: int) -> Path:
        return self.round(number) / "rewarded.jsonl"

    def selection(self, number: int) -> Path:
        return self.round(number) / "selection.jsonl"

    def standings(self, number: int) -> Path:
        """How the rounds up to this one did on the dev problems."""
        return self.round(number) / "standings.jsonl"

    @property
    def best(self) -> Path:
        """Which round's policy the run ends with."""
        return self.root / "run" / "best.json"

    @property
    def run_policy(self) -> Path:
        """The policy that the run ends with: the best round's, or the last one's where rounds are not compared."""
        return self.root / "run" / "policy"

    def evaluation(self, name: str) -> Path:
        """Folder with `outcomes.jsonl` and `attempts.jsonl`; `name` is `before` or `after`."""
        return self.root / "run" / "evaluation" / name

    @property
    def promotion(self) -> Path:
        return self.root / "run" / "promotion.json"

    @property
    def account(self) -> Path:
        """What the run has to tell, for comparing it with others. Of no stage: it is written when all are done."""
        return self.root / "run" / "account.json"

    @property
    def page(self) -> Path:
        """The same for people, as one HTML file."""
        return self.root / "run" / "page.html"

    @property
    def champion(self) -> Path:
        """The best promoted policy; it outlives runs and belongs to none, so DVC does not track it."""
        return self.root / "champion"

    @property
    def replies(self) -> Path:
        """What a model said to the operators' prompts: a memory that no stage depends on."""
        return self.root / ".graft" / "replies"

    def journals(self, stage: str, number: int) -> Path:
        """Folder of what a stage of a round has done so far. Not in `run`: DVC clears outputs when a stage begins."""
        return self.root / ".graft" / "journal" / f"{stage}@{number}"

    def steps(self, number: int) -> Path:
        """Table of what was measured at each optimiser step of a round's update."""
        return self.root / "run" / "plots" / f"update@{number}.csv"

    def by_template(self, name: str) -> Path:
        """Table of how the problems of each template went in an evaluation; `name` is `before` or `after`."""
        return self.root / "run" / "plots" / f"evaluate@{name}.csv"

    def speed(self, address: str) -> Path:
        """How fast a stage was when it last ran, as numbers by name. Not in `run`: no two runs are as fast."""
        return self.root / ".graft" / "speed" / f"{address}.json"

    def seconds(self, address: str) -> Path:
        """How long the last runs of a stage took, and with which params."""
        return self.root / ".graft" / "seconds" / f"{address}.json"

    def metrics(self, stage: str, round: int | str | None = None) -> Path:
        """Numbers of one stage, for `dvc metrics` and MLflow. `round` is what follows `@` in the stage's address."""
        return self.root / "run" / "metrics" / (f"{stage}.json" if round is None else f"{stage}@{round}.json")
