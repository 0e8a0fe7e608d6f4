"""One round's search, wave by wave: the policy writes for all problems, the sandbox runs, the trees learn."""

from collections.abc import Sequence
from time import perf_counter

from tasks.environments.protocol import Environment
from tasks.environments.runner import Runner
from tasks.model.policy import Policy, decode, encode_prompt
from tasks.model.sampling.sampler import Request, Sampler
from tasks.params.params import Params
from tasks.programs.answer_check import solved_share, why_lost
from tasks.programs.operators.model import error_for
from tasks.programs.sandbox.sandbox import Program
from tasks.records import Completion, Problem, Result
from tasks.search.journal import Batch, EvaluatedCompletion, Journal, batch_name
from tasks.search.policy_tree import PolicyTree, Rollout
from tasks.search.progress import Tally
from tasks.seeds import derive_seed


class PolicySearch:
    """One round's search: the policy writes, `runner` runs or reads that, the trees learn.

    What `journal` holds is not done again, and what is done is added to it; `tally` is told of each completion.
    """

    def __init__(
        self,
        policy: Policy,
        environment: Environment,
        runner: Runner,
        params: Params,
        round: int,
        journal: Journal | None = None,
        tally: Tally | None = None,
    ) -> None:
        self.policy, self.params, self.round = policy, params, round
        self.environment, self.runner = environment, runner
        self.journal, self.tally = journal, tally or Tally({})
        self._known: dict[Program, list[Result]] = {}
        self.sampler = Sampler(policy, params.search.temperature, params.policy.max_new_tokens)
        texts = policy.tokenizer.batch_decode([[i] for i in range(len(policy.tokenizer))])
        self._ends = {i for i, text in enumerate(texts) if "\n" in text}

    def trees(self, problems: Sequence[Problem]) -> list[PolicyTree]:
        """A tree for each problem."""
        longest = self.params.policy.max_new_tokens
        return [PolicyTree(problem, self._ends.__contains__, self._text, longest) for problem in problems]

    def _text(self, tokens: list[int]) -> str:
        return decode(self.policy, tokens).strip()

    def sample_all(self, trees: Sequence[PolicyTree], judges: Sequence[PolicyTree] = ()) -> None:
        """The first wave: independent samples for every problem; `judges` are those of validation problems."""
        count = self.params.search.samples if self.environment.asks_siblings else self.params.grpo.group_size
        samples = [(tree, rollout) for tree in trees for rollout in tree.samples(count)]
        votes = [(tree, rollout) for tree in judges for rollout in tree.samples(self.params.influence.completions)]
        self._run([*samples, *votes])

    def share(self, results: Sequence[Result], problem: Problem) -> float:
        """Share of the problem and its siblings that the results solve."""
        return solved_share(results, problem.answers, self.environment.is_right)

    def explore(self, trees: Sequence[PolicyTree]) -> None:
        """Waves of rollouts from inside the trees, up to `search.simulations` completions for each problem.

        No wave begins once all have taken `search.seconds` for each tree. A problem that nothing solves yet keeps the
        last `search.revisions` back for revisions.
        """
        search, spent = self.params.search, 0.0
        while search.seconds is None or spent < search.seconds * len(trees):
            wave = [(tree, rollout) for tree in trees for rollout in self._proposed(tree)]
            if not wave:
                return
            spent += self._run(wave)

    def _proposed(self, tree: PolicyTree) -> list[Rollout]:
        search = self.params.search
        kept_back = 0 if tree.solved else search.revisions
        count = min(search.wave_size, search.simulations - kept_back - tree.rows)
        seed = derive_seed(self.params.seed, "search", self.round)
        rollouts = tree.propose(count, search.exploration, search.rule, seed, search.stop_at)
        if not rollouts:
            self.tally.ended(tree.problem.problem_id)
        return rollouts

    def _run(self, rollouts: Sequence[tuple[PolicyTree, Rollout]]) -> float:
        """Let the trees learn from these rollouts; gives the seconds that it took, now or before an interruption."""
        requests = [self._request(tree, rollout) for tree, rollout in rollouts]
        came: dict[int, EvaluatedCompletion] = {}
        seconds = 0.0
        for rows in self.sampler.batches(requests):
            problems = [rollouts[i][0].problem for i in rows]
            batch = self._batch([requests[i] for i in rows], problems)
            came.update(zip(rows, batch.written, strict=True))
            seconds += batch.seconds
            for problem, written in zip(problems, batch.written, strict=True):
                self.tally.came(problem.problem_id, self.share(written.results, problem))
        for i, (tree, rollout) in enumerate(rollouts):  # in this order, whatever the batches are
            completion, results = came[i].completion, came[i].results
            reward = self.share(results, tree.problem)
            tree.learn(rollout, completion, self._code(completion), results, reward)
        return seconds

    def _batch(self, requests: Sequence[Request], problems: Sequence[Problem]) -> Batch:
        """The completions of these requests, each run on the questions of its problem; from the journal if it can."""
        name = batch_name(requests)
        if self.journal and (known := self.journal.batch(name)):
            return known
        started = perf_counter()
        completions = self.sampler.complete(requests)
        programs = [Program(self._code(c), p.questions) for c, p in zip(completions, problems, strict=True)]
        pairs = zip(completions, self._ran(programs), strict=True)
        written = [EvaluatedCompletion(completion=completion, results=results) for completion, results in pairs]
        batch = Batch(name=name, seconds=perf_counter() - started, written=written)
        failures = [why for each in written if (why := why_lost(each.results))]
        if len(failures) > self.params.rewards.failed_limit * len(written):
            raise error_for(failures[0])(
                f"search: {len(failures)} of {len(written)} workflows have no result, rewards.failed_limit is "
                f"{self.params.rewards.failed_limit:.0%}; for instance {failures[0]}: mend that and run again, nothing "
                "that was done is lost"
            )
        if self.journal and not failures:  # another time they may have a result
            self.journal.add(batch)
        return batch

    def _ran(self, programs: Sequence[Program]) -> list[list[Result]]:
        """What the programs gave; one whose results an earlier batch brought is not run again."""
        new = [program for program in dict.fromkeys(programs) if program not in self._known]
        came = self._known | dict(zip(new, self.runner.run(new), strict=True))
        self._known = {program: results for program, results in came.items() if why_lost(results) is None}
        return [came[program] for program in programs]

    def _code(self, completion: Completion) -> str:
        return self.environment.text(decode(self.policy, completion.tokens))

    def _request(self, tree: PolicyTree, rollout: Rollout) -> Request:
        problem = tree.problem
        seed = derive_seed(self.params.seed, "search", self.round, problem.problem_id, rollout.row)
        prompt = self.environment.prompt(problem.question, self.policy.base, self.runner.serves)
        return Request(encode_prompt(self.policy, prompt), seed, tree.prefix(rollout.from_node))
