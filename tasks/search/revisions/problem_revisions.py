"""Revisions of problems: a model rewrites a workflow, given its results and the changes tried before.

AFlow's search (Zhang et al. 2024) for one problem: draw a workflow, let the model change it, run the result, remember
whether the change helped. Differences: a solved problem is not revised; a change that helped is shown as such (AFlow
forbids both kinds, its issue 8); known workflows and changes are not run again. The workflows of many problems are
revised in waves: one batch of prompts, one batch of programs.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from tasks.environments.protocol import Environment, search_share
from tasks.environments.runner import Runner, program_of
from tasks.evaluators.unit_tests import shown_share, without_hidden
from tasks.params.params import Params
from tasks.programs.answer_check import failure_reason
from tasks.programs.operators.model import Prompt, Reply, exception_for
from tasks.programs.operators.model_calls import MAX_PROMPT
from tasks.programs.operators.reply_cache import CachedModel
from tasks.records import UNIT_TESTS, Completion, Result
from tasks.search.node import Node, backpropagate
from tasks.search.policy_tree import WAVE_SIZE, FoundWorkflow, PolicyTree
from tasks.search.revisions.prompt import (
    EvaluatedWorkflow,
    Revision,
    Trial,
    change_key,
    fresh_prompt,
    parse_revision,
    revision_prompt,
)
from tasks.search.rules import AFLOW_BEST, draw_index, soft_mix
from tasks.seeds import SEED_BITS, derive_seed


@dataclass(frozen=True)
class Draft:
    """A requested revision; `parent` None: a fresh workflow."""

    parent: FoundWorkflow | None
    prompt: Prompt


class ProblemRevisions:
    """At most `most` revisions of one problem; `draw(n)` in [0, 1) selects the parent of the n-th."""

    def __init__(self, environment: Environment, tree: PolicyTree, most: int, draw: Callable[[int], float]) -> None:
        self.environment, self.tree = environment, tree
        self._most, self._draw = most, draw
        self._requested = 0
        self._repeats: Counter[str] = Counter()  # of each prompt
        self._codes = set(tree.workflows)
        self._changes: set[ChangeKey] = set()
        self._nodes: dict[ChangeKey, tuple[Node, float]] = {}  # of each change, with its value
        self._trials: dict[Node, list[Trial]] = {}

    def drafts(self, wave: int) -> list[Draft]:
        """Up to `wave` more; none once the problem is solved."""
        room = 0 if self.tree.solved else min(wave, self._most - self._requested)
        return [self._draft() for _ in range(room)]

    def _draft(self) -> Draft:
        parent = select_parent(list(self.tree.workflows.values()), self._draw(self._requested))
        text = self._text(parent)
        nth = self._repeats[text]
        self._repeats[text] += 1
        self._requested += 1
        return Draft(parent, Prompt("revision", text, nth))

    def _text(self, parent: FoundWorkflow | None) -> str:
        problem, trials = self.tree.problem, self._trials.get(self._node_of(parent), [])
        if parent is None:
            return fresh_prompt(problem, trials)
        right, results = self._right(parent.results), list(map(without_hidden, parent.results))
        return revision_prompt(problem, EvaluatedWorkflow(parent.code, results, right), trials)

    def is_new(self, draft: Draft, revision: Revision) -> bool:
        """True if neither the workflow nor this change of its parent was seen before; remembers both."""
        key = self._key(draft, revision)
        new = revision.code not in self._codes and key not in self._changes
        if new:
            self._codes.add(revision.code)
        if key[1]:
            self._changes.add(key)
        return new

    def update(
        self, draft: Draft, revision: Revision, results: list[Result] | None, written: Completion | None
    ) -> None:
        """Add a revision to the tree, in the order of `is_new`; `results` None: it was not run.

        `written` holds the policy's tokens for it, None if they are too many to learn.
        """
        tree, key = self.tree, self._key(draft, revision)
        tree.completions += 1
        tree.revision_counts.update(revisions=1, revisions_repeated=int(results is None))
        if key in self._nodes:  # credited with the value of the same change
            backpropagate(*self._nodes[key])
        else:
            if results is not None:
                tree.revision_counts["revisions_too_long"] += written is None
            self._expand(draft, revision, results, written)
        if revision.code in tree.workflows:
            tree.workflows[revision.code].revisions += 1

    def _expand(
        self, draft: Draft, revision: Revision, results: list[Result] | None, written: Completion | None
    ) -> None:
        tree, key = self.tree, self._key(draft, revision)
        node = key[0].add(revision.change or NO_DESCRIPTION, 1.0, 0.0, terminal=True)
        node.revision = True
        if results is not None:
            revised = [written] if written else []
            reward = search_share(self.environment, tree.problem, results)
            new = FoundWorkflow(revision.code, results, reward, node, key[0], revision_completions=revised)
            tree.workflows[revision.code] = new
        found = tree.workflows[revision.code]
        credit = tree.credit(found.results, found.reward)
        backpropagate(node, credit)
        if key[1]:
            self._nodes[key] = node, credit
            if failure_reason(found.results) is None:
                before = sum(self._right(draft.parent.results)) if draft.parent else 0
                trial = Trial(revision.change, before, sum(self._right(found.results)))
                self._trials.setdefault(key[0], []).append(trial)

    def _key(self, draft: Draft, revision: Revision) -> "ChangeKey":
        return self._node_of(draft.parent), change_key(revision.change)

    def _node_of(self, parent: FoundWorkflow | None) -> Node:
        return parent.leaf if parent else self.tree.root

    def _right(self, results: Sequence[Result]) -> list[bool]:
        problem = self.tree.problem
        if problem.evaluator == UNIT_TESTS:
            return [shown_share(result) == 1 for result in results]
        return list(map(self.environment.is_right, problem.variants, results))


ChangeKey = tuple[Node, str]
"""The parent's node, and the key of a change."""

NO_DESCRIPTION = "(not said)"
"""Statement of a revision without a description of the change."""


def select_parent(found: Sequence[FoundWorkflow], u: float) -> FoundWorkflow | None:
    """The workflow to revise, None for a fresh one: AFlow's rule over the root, with score 0, and the best workflows.

    Ties go to the earliest. Workflows without results, empty ones and those too long for a prompt are excluded.
    """
    usable = [each for each in found if 0 < len(each.code) <= MAX_PROMPT and failure_reason(each.results) is None]
    best = sorted(usable, key=lambda each: -each.reward)[:AFLOW_BEST]
    scores = np.array([[0.0, *(each.reward for each in best)]])
    (index,) = draw_index(soft_mix(scores, np.ones(scores.shape, dtype=np.bool_)), np.array([u]))
    return best[index - 1] if index else None


def revision_metrics(trees: Sequence[PolicyTree]) -> dict[str, float]:
    """Counts of revisions over all problems, for the stage's metrics."""
    names = ("revisions", "revisions_repeated", "revisions_skipped", "revisions_too_long")
    by_others = [any(f.reward == 1.0 for f in tree.workflows.values() if f.samples or f.rollouts) for tree in trees]
    solved = sum(tree.solved and not others for tree, others in zip(trees, by_others, strict=True))
    return {
        "solved_by_revisions": solved,
        **{name: sum(tree.revision_counts[name] for tree in trees) for name in names},
    }


class Reviser:
    """Revises the workflows of many problems at once; the result of each is independent of the other problems.

    `encode` returns the policy's tokens for a workflow.
    """

    def __init__(
        self,
        environment: Environment,
        served: CachedModel,
        runner: Runner,
        encode: Callable[[str], list[int]],
        params: Params,
        round: int,
    ) -> None:
        self._environment = environment
        self._served, self._runner, self._encode, self._params, self._round = served, runner, encode, params, round
        self._replied = False

    def revise(self, trees: Sequence[PolicyTree]) -> None:
        """Waves of revisions, up to `search.revisions` for each unsolved problem.

        A prompt without a reply is counted and skipped. Raises GraftError if none has had a reply.
        """
        revisions = [self._revisions(tree) for tree in trees]
        while wave := [(each, draft) for each in revisions for draft in each.drafts(WAVE_SIZE)]:
            replies = self._served.complete([draft.prompt for _, draft in wave])
            self._check(replies)
            read = []
            for (each, draft), reply in zip(wave, replies, strict=True):
                if reply.text is None:
                    each.tree.revision_counts["revisions_skipped"] += 1
                else:
                    revision = parse_revision(reply.text)
                    read.append((each, draft, revision, each.is_new(draft, revision)))
            self._run(read)

    def _run(self, read: Sequence[tuple[ProblemRevisions, Draft, Revision, bool]]) -> None:
        programs = [program_of(revision.code, each.tree.problem) for each, _, revision, new in read if new]
        outcomes = iter(self._runner.run(programs))
        for each, draft, revision, new in read:
            results, written = (next(outcomes), self._written(revision.code)) if new else (None, None)
            each.update(draft, revision, results, written)

    def _written(self, code: str) -> Completion | None:
        tokens = self._encode(code)
        return Completion(tokens=tokens, logprobs=[]) if len(tokens) <= self._params.policy.max_new_tokens else None

    def _revisions(self, tree: PolicyTree) -> ProblemRevisions:
        name = tree.problem.problem_id

        def draw(count: int) -> float:
            return derive_seed(self._params.seed, "revise", self._round, name, count) / float(1 << SEED_BITS)

        return ProblemRevisions(self._environment, tree, self._params.search.revisions, draw)

    def _check(self, replies: Sequence[Reply]) -> None:
        self._replied |= any(reply.text is not None for reply in replies)
        if not self._replied:
            reason = replies[0].failed or replies[0].refused or ""
            raise exception_for(reason)(
                f"search.revisions: no reply to any of {len(replies)} prompts ({reason}); "
                "check that operators.backend is up and fix its params, or set search.revisions to 0"
            )
