"""Paths of all artifacts of a run, under one root."""

from dataclasses import dataclass
from pathlib import Path

from tasks.records.problems import Split

REWARDS = "rewards.jsonl"
"""Name of the rewards in the folder of their trajectories."""

KNOWN, REPLAY = "known.json", "replay.jsonl"
"""In the folder of a policy: what its lineage learnt from and was tested on; train problems for `problems.replay`."""

VALUE_HEAD = "value_head.safetensors"
"""Name of the value head in the folder of its policy."""


@dataclass(frozen=True)
class Layout:
    """Paths of a run's artifacts. Round 0 contains only the initial policy and empty standings."""

    root: Path

    @property
    def sources(self) -> Path:
        """Folder with a file for each stage: its source files and their digests."""
        return self.root / "run" / "sources"

    def problems(self, split: Split) -> Path:
        return self.root / "run" / "problems" / f"{split}.jsonl"

    def carried(self, name: str) -> Path:
        """A file that the run's policy will carry: KNOWN or REPLAY."""
        return self.root / "run" / "problems" / name

    @property
    def demonstrations(self) -> Path:
        """Written solutions that the first policy learns from; empty where it learns from none."""
        return self.root / "run" / "problems" / "demonstrations.json"

    @property
    def coldstart(self) -> Path:
        """Workflows found without a policy."""
        return self.root / "run" / "coldstart" / "workflows"

    def round(self, number: int) -> Path:
        return self.root / "run" / "rounds" / str(number)

    def policy(self, number: int) -> Path:
        return self.round(number) / "policy"

    @property
    def untouched_base(self) -> Path:
        """The base before a warm start, as a policy; there only after one."""
        return self.policy(0) / "base"

    def value_head(self, number: int) -> Path:
        """Written only with algorithm ppo."""
        return self.policy(number) / VALUE_HEAD

    def workflows(self, number: int) -> Path:
        """Folder with `problems.jsonl` as they were asked, `index.jsonl`, one line per workflow, and `trees.jsonl`."""
        return self.round(number) / "workflows"

    def tree(self, number: int) -> Path:
        """Picture of the most informative search tree of a round."""
        return self.round(number) / "tree.svg"

    def trajectories(self, number: int, split: Split = "train") -> Path:
        """Of `train` or `validation`, with their rewards next to them."""
        return (self.round(number) if split == "train" else self.validation(number)) / "trajectories.jsonl"

    def rewards(self, number: int) -> Path:
        return self.round(number) / REWARDS

    def validation(self, number: int) -> Path:
        """Folder of the validation completions, empty files where nothing is selected, and of the audit of rewards."""
        return self.round(number) / "validation"

    def audit(self, number: int) -> Path:
        """What the audit of a round's rewards found; only with `influence.selection` audit."""
        return self.validation(number) / "audit.json"

    def selection(self, number: int) -> Path:
        return self.round(number) / "selection.jsonl"

    def standings(self, number: int) -> Path:
        """Results of the rounds up to this one on the dev problems."""
        return self.round(number) / "standings.jsonl"

    def curves(self, number: int) -> Path:
        """Table with a row of each round up to this one."""
        return self.round(number) / "curves.csv"

    @property
    def run_curves(self) -> Path:
        """The table of all rounds, for `dvc plots`."""
        return self.root / "run" / "plots" / "rounds.csv"

    @property
    def best(self) -> Path:
        """The round whose policy is the result of the run."""
        return self.root / "run" / "best.json"

    @property
    def run_policy(self) -> Path:
        """The resulting policy: that of the best round, or of the last one if rounds are not compared."""
        return self.root / "run" / "policy"

    def evaluation(self, name: str) -> Path:
        """Folder with `outcomes.jsonl` and `attempts.jsonl`; `name` is `before` or `after`.

        After a warm start `before` has `base.jsonl`, too: the outcomes of the base that was not trained yet.
        """
        return self.root / "run" / "evaluation" / name

    @property
    def baselines(self) -> Path:
        """Folder with `workflows.jsonl`, the stored ones that were tried, and `outcomes.jsonl` of the first policy."""
        return self.root / "run" / "baselines"

    @property
    def promotion(self) -> Path:
        return self.root / "run" / "promotion.json"

    @property
    def account(self) -> Path:
        """Record of the run for comparison with others, written after all stages and by none of them."""
        return self.root / "run" / "account.json"

    def past_account(self, number: int) -> Path:
        """A copy of the record of the run with this number in the history."""
        return self.root / ".graft" / "accounts" / f"{number}.json"

    @property
    def page(self) -> Path:
        """The record as one HTML page."""
        return self.root / "run" / "page.html"

    @property
    def champion(self) -> Path:
        """The best promoted policy. It belongs to no single run, so DVC does not track it."""
        return self.root / "champion"

    @property
    def challenger(self) -> Path:
        """A better policy that waits for a person's approval, with the files of a champion and the page of its run."""
        return self.root / "challenger"

    @property
    def latest(self) -> Path:
        """The policy that the next scheduled run starts from. DVC does not track it, either."""
        return self.root / "latest"

    @property
    def first(self) -> Path:
        """In `latest/` until there is a champion: the policy that the scheduled runs began with."""
        return self.latest / "first"

    @property
    def replies(self) -> Path:
        """Cache of a model's replies to the operators' prompts. No stage depends on it."""
        return self.root / ".graft" / "replies"

    def engine_log(self, stage_id: str) -> Path:
        """Output of the server that a stage started to sample the policy. Not in `run`: it has times and addresses."""
        return self.root / ".graft" / "engine" / f"{stage_id}.log"

    def journals(self, stage: str, number: int) -> Path:
        """Progress of an unfinished stage. Not in `run`, since DVC removes outputs when a stage starts."""
        return self.root / ".graft" / "journal" / f"{stage}@{number}"

    def reward_histogram(self, number: int) -> Path:
        """Table of a round's rewards, for `dvc plots` and the reports."""
        return self.root / "run" / "plots" / f"reward@{number}.csv"

    def steps(self, number: int) -> Path:
        """Table of metrics per optimiser step of a round's update."""
        return self.root / "run" / "plots" / f"update@{number}.csv"

    def live_steps(self, stage_id: str) -> Path:
        """The rows of `steps` so far, while the stage runs. Not in `run`, since it is gone when the stage is done."""
        return self.root / ".graft" / "live" / f"{stage_id}.jsonl"

    def by_template(self, name: str) -> Path:
        """Table of results per template of an evaluation; `name` is `before` or `after`."""
        return self.root / "run" / "plots" / f"evaluate@{name}.csv"

    @property
    def pass_at_k(self) -> Path:
        """Table of pass@k by k, of the first and the final policy."""
        return self.root / "run" / "plots" / "pass_at_k.csv"

    def speed(self, stage_id: str) -> Path:
        """Speed of a stage at its last execution, numbers by name. Not in `run`, since it differs from run to run."""
        return self.root / ".graft" / "speed" / f"{stage_id}.json"

    def seconds(self, stage_id: str) -> Path:
        """Durations of the last executions of a stage, with their params."""
        return self.root / ".graft" / "seconds" / f"{stage_id}.json"

    @property
    def headline(self) -> Path:
        """The few numbers that tell whether the run's policy is better: the only metric of DVC."""
        return self.root / "run" / "metrics.json"

    def metrics(self, stage: str, round: int | str | None = None) -> Path:
        """Metrics of one stage, for the tracker and the reports. `round` is the part of the stage id after `@`."""
        return self.root / "run" / "metrics" / (f"{stage}.json" if round is None else f"{stage}@{round}.json")
