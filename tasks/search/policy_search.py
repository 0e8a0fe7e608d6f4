"""Monte Carlo tree search (MCTS) of one round, in waves over all its problems.

A wave samples completions for all problems, runs them in the sandbox and updates the trees.
"""

import time
from collections.abc import Sequence

from tasks.environments.protocol import Environment, with_checked_siblings
from tasks.environments.runner import Runner, program_of
from tasks.model.decoding.token_draw import Truncation
from tasks.model.policy import Policy
from tasks.model.sampling.sampler import Request, Sampler
from tasks.model.text import completion_text, decode, encode_prompt, problem_prompt, readable
from tasks.params.params import Params
from tasks.programs.answer_check import FAILED_LIMIT, failure_reason
from tasks.programs.operators.model import exception_for
from tasks.programs.sandbox.sandbox import Program
from tasks.records.problems import Problem, Split
from tasks.records.programs import Result
from tasks.records.search import AskedProblem, Completion
from tasks.search.journal import EvaluatedCompletion, FinishedBatch, Journal, batch_name
from tasks.search.policy_tree import WAVE_SIZE, PolicyTree, Rollout
from tasks.search.rules import rule_of
from tasks.search.tally import current_tally
from tasks.seeds import derive_seed

SplitProblem = tuple[Split, Problem]
"""A problem of the round with its split, in its first form."""


class PolicySearch:
    """The search of one round: the policy writes completions, `runner` evaluates them, the trees are updated.

    Batches found in `journal` are not computed again, new ones are added to it; the displayed tally counts the
    completions.
    """

    def __init__(
        self,
        policy: Policy,
        environment: Environment,
        runner: Runner,
        params: Params,
        round: int,
        journal: Journal | None = None,
        failed_limit: float = FAILED_LIMIT,
    ) -> None:
        self.policy, self.params, self.round, self.failed_limit = policy, params, round, failed_limit
        self.environment, self.runner = environment, runner
        self.journal, self.tally = journal, current_tally()
        self._cached_results: dict[Program, list[Result]] = {}
        search = params.search
        truncation = Truncation(search.top_p, search.top_k)
        self.sampler = Sampler(policy, search.temperature, params.policy.max_new_tokens, truncation)
        texts = policy.tokenizer.batch_decode([[i] for i in range(len(policy.tokenizer))])
        self._line_ends = {i for i, text in enumerate(texts) if "\n" in text}

    def make_trees(self, problems: Sequence[SplitProblem]) -> list[PolicyTree]:
        """An empty tree for each problem, which is asked in the round's rotation."""
        longest, ends = self.params.policy.max_new_tokens, self._line_ends.__contains__
        seed = derive_seed(self.params.seed, "search", self.round)
        trees = []
        for split, problem in problems:
            rotated = with_checked_siblings(self.environment, problem.rotated(self.round))
            prompt = problem_prompt(self.policy, self.environment, rotated, self.runner.serves)
            tokens = encode_prompt(self.policy, prompt)
            asked = AskedProblem(split=split, problem=rotated, prompt=readable(prompt), prompt_tokens=tokens)
            rule = rule_of(self.params.search, self.environment.root)  # one for each tree: it may keep a state
            trees.append(PolicyTree(asked, ends, lambda t: decode(self.policy, t).strip(), longest, rule, seed))
        return trees

    def sample(self, trees: Sequence[PolicyTree]) -> None:
        """The first wave: independent samples for every problem."""
        count = self.params.search.samples if self.environment.asks_siblings else self.params.update.group_size
        self._run_wave([(tree, rollout) for tree in trees for rollout in tree.samples(count)])

    def explore(self, trees: Sequence[PolicyTree]) -> None:
        """Waves of rollouts from inside the trees, up to `search.simulations` completions for each problem."""
        while wave := [(tree, rollout) for tree in trees for rollout in self._propose(tree)]:
            self._run_wave(wave)

    def _propose(self, tree: PolicyTree) -> list[Rollout]:
        rollouts = tree.propose(min(WAVE_SIZE, self.params.search.simulations - tree.completions))
        if not rollouts:
            self.tally.close(tree.problem.problem_id)
        return rollouts

    def _run_wave(self, rollouts: Sequence[tuple[PolicyTree, Rollout]]) -> None:
        """Run these rollouts and update the trees."""
        requests = [self._request(tree, rollout) for tree, rollout in rollouts]
        evaluated: dict[int, tuple[EvaluatedCompletion, float]] = {}
        for rows in self.sampler.batches(requests):
            problems = [rollouts[i][0].problem for i in rows]
            batch = self._batch([requests[i] for i in rows], problems)
            for i, problem, written in zip(rows, problems, batch.written, strict=True):
                reward = self.environment.search_share(problem, written.results)
                evaluated[i] = (written, reward)
                self.tally.add_completion(problem.problem_id, reward)
        for i, (tree, rollout) in enumerate(rollouts):  # in this order, however the batches were formed
            written, reward = evaluated[i]
            code = self._code(tree.problem, written.completion)
            tree.update(rollout, written.completion, code, written.results, reward)

    def _batch(self, requests: Sequence[Request], problems: Sequence[Problem]) -> FinishedBatch:
        """The completions of these requests, each run on the questions of its problem; from the journal if there."""
        name = batch_name(requests)
        if self.journal and (finished := self.journal.batch(name)):
            return finished
        started = time.monotonic()
        completions = self.sampler.complete(requests, self.tally.set_sampled)
        new = sum(len(c.tokens) - len(r.prefix.tokens) for c, r in zip(completions, requests, strict=True))
        self.tally.set_speed(new, time.monotonic() - started)
        programs = [program_of(self._code(p, c), p) for c, p in zip(completions, problems, strict=True)]
        pairs = zip(completions, self._run_programs(programs), strict=True)
        written = [EvaluatedCompletion(completion=completion, results=results) for completion, results in pairs]
        batch = FinishedBatch(name=name, written=written)
        failures = [why for evaluated in written if (why := failure_reason(evaluated.results))]
        if len(failures) > self.failed_limit * len(written):
            raise exception_for(failures[0])(
                f"search: {len(failures)} of {len(written)} workflows have no result, more than "
                f"{self.failed_limit:.0%}; for instance {failures[0]}: fix that and run again, finished "
                "batches are kept"
            )
        if self.journal and not failures:  # a failed program may have a result next time
            self.journal.add(batch)
        return batch

    def _run_programs(self, programs: Sequence[Program]) -> list[list[Result]]:
        """Results of the programs; those of earlier batches are reused."""
        new = [program for program in dict.fromkeys(programs) if program not in self._cached_results]
        results = self._cached_results | dict(zip(new, self.runner.run(new), strict=True))
        self._cached_results = {program: r for program, r in results.items() if failure_reason(r) is None}
        return [results[program] for program in programs]

    def _code(self, problem: Problem, completion: Completion) -> str:
        return self.environment.text_for(problem, completion_text(self.policy, completion.tokens))

    def _request(self, tree: PolicyTree, rollout: Rollout) -> Request:
        problem = tree.problem
        seed = derive_seed(self.params.seed, "search", self.round, problem.problem_id, rollout.row)
        prefix = tree.prefix(rollout.from_node)
        return Request(tree.asked.prompt_tokens, seed, prefix, temperature=problem.temperature)
