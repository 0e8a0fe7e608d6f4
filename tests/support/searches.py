"""What tests of the search share: a tiny policy that knows some workflows, trees, problems with siblings."""

from collections.abc import Iterable
from pathlib import Path

from tasks.programs.contract import prompt_of
from tasks.records import AskedProblem, Problem, Sibling
from tasks.search.node import Node
from tasks.search.policy_tree import PolicyTree


def make_problem(name: str, *asked: tuple[str, int]) -> Problem:
    """Its question and answer, then those of its siblings."""
    siblings = [Sibling(question=question, answer=answer) for question, answer in asked[1:]]
    return Problem(problem_id=name, question=asked[0][0], answer=asked[0][1], source="test", siblings=siblings)


def make_tree(problem: Problem, longest: int) -> PolicyTree:
    """Token 9 ends a statement, token 1 the text."""
    asked = AskedProblem(split="train", problem=problem, prompt=f"{problem.question}\n", prompt_tokens=[5, 6])
    return PolicyTree(asked, lambda token: token == 9, lambda tokens: "-".join(map(str, tokens)), longest)


def nodes_of(node: Node) -> list[Node]:
    return [node, *(each for child in node.children for each in nodes_of(child))]


def save_writer(
    folder: Path, corpus: list[str], questions: Iterable[str], codes: list[str], epochs: int, rate: float, batch: int
) -> None:
    """A policy folder; its policy answers each of the questions with one of the codes."""
    from tasks.bootstrap.scratch_model import build_scratch_model
    from tasks.bootstrap.supervised import TrainingExample, train_supervised
    from tasks.bootstrap.tokenizer import train_tokenizer
    from tasks.model.policy import Policy, attach_adapter, encode_completion, encode_prompt, save_policy

    tokenizer = train_tokenizer(corpus, 300)
    policy = Policy(build_scratch_model(tokenizer, hidden=32, layers=1, seed=0), tokenizer, "", "scratch")
    prompts = [encode_prompt(policy, prompt_of(question, "scratch")) for question in questions]
    rows = [TrainingExample(prompt, encode_completion(policy, code)) for prompt in prompts for code in codes]
    pad = tokenizer.pad_token_id
    train_supervised(policy.model, rows, epochs=epochs, learning_rate=rate, batch=batch, pad=pad, seed=0)
    policy.model = attach_adapter(policy.model, rank=2, alpha=2.0, seed=0)
    save_policy(policy, folder, parent=None, round=0)
