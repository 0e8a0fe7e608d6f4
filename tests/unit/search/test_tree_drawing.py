"""The picture of a tree: self-contained SVG, and the choice of the tree."""

import re
from xml.etree import ElementTree

from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.records.problems import Problem
from tasks.records.search import TreeNode
from tasks.search.tree_drawing import tree_svg

PROBLEM = Problem(problem_id="train-0007", question="2 pens & <3> cups?", answer=5, source="test")
STATEMENTS = ["a = n[0] + n[1]", "b = a < 3 and [bold]a & 'x'[/]", "return a"]


def node(name: str, statement: str, visits: int, value: float) -> TreeNode:
    place = {"problem_id": "train-0007", "node_id": name, "parent_id": name.rpartition(".")[0] or None}
    counts = {"depth": name.count("."), "visits": visits, "value": value, "prior": 0.5}
    return TreeNode(**place, **counts, statement=statement, terminal=False)


NODES = [
    node("0", "", 9, 0.5),
    node("0.0", STATEMENTS[0], 6, 0.75),
    node("0.0.0", STATEMENTS[2], 4, 1.0),
    node("0.1", STATEMENTS[1], 3, 0.0),
]


def lines_of(svg: str) -> list[str]:
    """The text of each line of a picture, from above."""
    rows: dict[float, str] = {}
    for text in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text"):
        y = float(text.attrib["y"])
        rows[y] = rows.get(y, "") + (text.text or "").replace("\xa0", " ")
    return [rows[y] for y in sorted(rows)]


def test_the_picture_has_question_and_statements_and_is_the_same_each_time() -> None:
    svg = tree_svg(NODES, PROBLEM, 3)
    assert svg == tree_svg(NODES, PROBLEM, 3)
    text = "\n".join(lines_of(svg))
    title = ["graft tree train-0007 --round 3", "2 pens & <3> cups?", "= 5; round 3", "9 completions"]
    assert all(wanted in text for wanted in [*title, *STATEMENTS])
    assert text.index(STATEMENTS[0]) < text.index(STATEMENTS[2]) < text.index(STATEMENTS[1])


def test_the_picture_needs_nothing_from_elsewhere() -> None:
    svg = tree_svg(NODES, PROBLEM, 3)
    addresses = re.findall(r"\w+://[^\s\"'<)]+", svg)
    assert set(addresses) <= {"http://www.w3.org/2000/svg", "https://www.textualize.io"}  # a name, and a comment
    assert not re.search(r"@font-face|@import|href|<image|<script", svg)


@settings(max_examples=30)
@given(st.text(max_size=30), st.text(max_size=30))
def test_any_text_of_a_policy_gives_valid_xml(statement: str, question: str) -> None:
    svg = tree_svg([NODES[0], node("0.0", statement, 1, 0.0)], PROBLEM.model_copy(update={"question": question}), 1)
    svg.encode()
    assert ElementTree.fromstring(svg).tag.endswith("svg")
