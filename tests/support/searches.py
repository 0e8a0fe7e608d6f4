"""Trees and problems with siblings for tests of the search."""

from tasks.records.problems import Problem, Sibling
from tasks.records.search import AskedProblem
from tasks.search.node import Node
from tasks.search.policy_tree import PolicyTree
from tasks.search.rules import BUILT_IN, Rule


def make_problem(name: str, *asked: tuple[str, int]) -> Problem:
    """Its question and answer, then those of its siblings."""
    siblings = [Sibling(question=question, answer=answer) for question, answer in asked[1:]]
    return Problem(problem_id=name, question=asked[0][0], answer=asked[0][1], source="test", siblings=siblings)


def make_tree(problem: Problem, longest: int, rule: Rule | None = None) -> PolicyTree:
    """Token 9 ends a statement, token 1 the text."""
    asked = AskedProblem(split="train", problem=problem, prompt=f"{problem.question}\n", prompt_tokens=[5, 6])
    chosen = rule or make_rule("puct", 1.5)
    return PolicyTree(asked, lambda token: token == 9, lambda tokens: "-".join(map(str, tokens)), longest, chosen)


def make_rule(name: str, exploration: float) -> Rule:
    """A built-in rule."""
    rule = BUILT_IN[name]()
    rule.exploration = exploration
    return rule


def nodes_of(node: Node) -> list[Node]:
    return [node, *(each for child in node.children for each in nodes_of(child))]
