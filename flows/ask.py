"""`graft ask`: what a policy answers to questions, with what its programs give in the sandbox; no key is needed."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

from flows.champion import find_policy, policies_of
from tasks.artifacts import read_json, stream_jsonl
from tasks.environments.lookup import environment_in
from tasks.environments.runner import make_runner
from tasks.errors import GraftError, one_line
from tasks.evaluators.scores import BUILT_IN
from tasks.layout import Layout
from tasks.model.checkpoints.version import LINEAGE, verify_policy
from tasks.model.rollouts.attempts import PolicyAnswer, answer_problem, problem_without_key
from tasks.model.rollouts.operator_model import operator_model
from tasks.model.sampling.vllm.serve import load_sampled_policy, serve_policy
from tasks.params.params import Params
from tasks.promote.champion import read_champion
from tasks.records.policy import Lineage
from tasks.records.problems import NUMBER, Problem


class PolicyReply(NamedTuple):
    """What one policy answers to a question: greedily, then its tries."""

    version: str
    answers: Sequence[PolicyAnswer]

    @property
    def most(self) -> tuple[Any, int]:
        """The value that most tries give, the earliest of several, and how many do; (None, 0) where none gives one."""
        values = Counter(result.value for _, result in self.answers[1:] if result.status == "ok")
        return next(iter(values.most_common(1)), (None, 0))


def ask(
    layout: Layout, params: Params, questions: Iterable[str], name: str | None, samples: int, compare: bool
) -> Iterator[tuple[str, list[PolicyReply]]]:
    """Each question with the reply of the policy that `name` means, and with `compare` that of its run's first policy.

    Raises GraftError where there is no such policy, it is damaged, or a question is empty or too long.
    """
    if name is None:
        read_champion(layout.champion, params.environment.name)  # of another environment it cannot be asked
    folders = [find_policy(layout, name)]
    if compare:
        if params.vllm:
            raise GraftError("--compare: a server of vLLM holds one policy; set vllm to null, or ask them in turn")
        folders.append(first_policy(layout, folders[0]))
    environment, evaluator = environment_in(layout.root, params), _evaluator_of(layout)
    length, temperature = params.policy.max_new_tokens, params.evaluation.temperature
    with ExitStack() as stack:
        asked = []
        for folder in folders:
            version = verify_policy(folder).version
            policy = load_sampled_policy(folder, stack.enter_context(serve_policy(layout, params.vllm, folder, "ask")))
            operators = operator_model(policy, params.operators, layout)
            asked.append((version, policy, stack.enter_context(make_runner(environment, params.sandbox, operators))))
        for number, question in enumerate(questions, start=1):
            if not question.strip():
                raise GraftError(f"question {number}: is empty; write one a line")
            problem = problem_without_key(question, evaluator)
            replies = [
                PolicyReply(version, answer_problem(policy, environment, problem, runner, length, samples, temperature))
                for version, policy, runner in asked
            ]
            yield question, replies


def first_policy(layout: Layout, folder: Path) -> Path:
    """The policy of round 0 that a policy's parents lead to. Raises GraftError where one of them is not kept."""
    known = policies_of(layout)
    while (lineage := read_json(folder / LINEAGE, Lineage)).round:
        if lineage.parent not in known:
            raise GraftError(f"--compare: {folder} is of a run that is no longer in run/; ask that of run/policy")
        folder = known[lineage.parent]
    return folder


def _evaluator_of(layout: Layout) -> str:
    """The evaluator of most train problems, by which a prompt names the kind of answer; that of numbers without any."""
    path = layout.problems("train")
    names = Counter(problem.evaluator for problem in stream_jsonl(path, Problem)) if path.exists() else Counter[str]()
    return next((name for name, _ in names.most_common(1) if name in BUILT_IN), NUMBER)


def as_record(question: str, replies: Sequence[PolicyReply]) -> dict[str, Any]:
    """A question and its replies as one JSON object; the first policy's reply is below `first`."""
    own, *others = map(_record, replies)
    return {"question": question, **own, **({"first": others[0]} if others else {})}


def _record(reply: PolicyReply) -> dict[str, Any]:
    greedy, *tries = [
        {"text": text, **result.model_dump(mode="json", include={"status", "value", "error"})}
        for text, result in reply.answers
    ]
    most = {"tries": tries, "most": dict(zip(("value", "count"), reply.most, strict=True))} if tries else {}
    return {"policy": reply.version, **greedy, **most}


def as_text(replies: Sequence[PolicyReply]) -> str:
    """The replies for people; where there are two, each is below a line with its version."""
    return "\n\n".join(
        "\n".join([*([f"# {title} {reply.version}"] if len(replies) > 1 else []), *_lines(reply)])
        for title, reply in zip(("policy", "first policy"), replies, strict=False)
    )


def _lines(reply: PolicyReply) -> Iterator[str]:
    for number, (text, result) in enumerate(reply.answers):
        if number:
            yield f"\n# try {number}"
        outcome = f"→ {result.value!r}" if result.status == "ok" else f"{result.status}: {result.error}"
        yield text.rstrip() + ("" if result.value == text else f"\n# {one_line(outcome)}")  # code is its own value
    if len(reply.answers) > 1:
        value, count = reply.most
        yield f"\n# most: {value!r}, {count} of {len(reply.answers) - 1} tries"
