"""Revision of the workflows of many problems in waves: one batch of prompts, one batch of programs."""

from collections.abc import Callable, Sequence

from tasks.environments.protocol import Environment
from tasks.environments.runner import Runner, program_of
from tasks.params.params import Params
from tasks.programs.operators.model import Reply, exception_for
from tasks.programs.operators.reply_cache import CachedModel
from tasks.records import Completion
from tasks.search.policy_tree import WAVE_SIZE, PolicyTree
from tasks.search.revisions.problem_revisions import Draft, ProblemRevisions
from tasks.search.revisions.prompt import Revision, parse_revision
from tasks.seeds import SEED_BITS, derive_seed


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
