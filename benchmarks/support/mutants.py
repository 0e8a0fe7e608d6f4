"""Mutants of a program: each differs in one operator, constant, comparison or by an early return."""

import ast
import copy
from collections.abc import Iterator

_BINARY: dict[type[ast.operator], ast.operator] = {
    ast.Add: ast.Sub(),
    ast.Sub: ast.Add(),
    ast.Mult: ast.Add(),
    ast.Div: ast.Mult(),
    ast.FloorDiv: ast.Mult(),
    ast.Mod: ast.Mult(),
    ast.Pow: ast.Mult(),
}
_COMPARED: dict[type[ast.cmpop], ast.cmpop] = {
    ast.Eq: ast.NotEq(),
    ast.NotEq: ast.Eq(),
    ast.Lt: ast.GtE(),
    ast.GtE: ast.Lt(),
    ast.Gt: ast.LtE(),
    ast.LtE: ast.Gt(),
    ast.In: ast.NotIn(),
    ast.NotIn: ast.In(),
    ast.Is: ast.IsNot(),
    ast.IsNot: ast.Is(),
}


def mutants_of(code: str, function: str) -> list[tuple[str, str]]:
    """(kind with line, code) for the first place in `function` of each kind that there is."""
    tree = ast.parse(code)
    places = [node for each in tree.body if getattr(each, "name", "") == function for node in ast.walk(each)]
    found: dict[str, tuple[str, str]] = {}
    for place, node in enumerate(places):
        for kind in _kinds(node):
            if kind not in found:
                changed = copy.deepcopy(tree)
                copies = [n for each in changed.body if getattr(each, "name", "") == function for n in ast.walk(each)]
                _mutate(kind, copies[place])
                label = f"{kind} in line {getattr(node, 'lineno', 0)}"
                found[kind] = (label, ast.unparse(ast.fix_missing_locations(changed)))
    return list(found.values())


def _kinds(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.BinOp | ast.AugAssign) and type(node.op) in _BINARY:
        yield "operator"
    if isinstance(node, ast.Compare) and type(node.ops[0]) in _COMPARED:
        yield "comparison"
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        yield "constant"
    if isinstance(node, ast.FunctionDef):
        yield "early return"


def _mutate(kind: str, node: ast.AST) -> None:
    if kind == "operator" and isinstance(node, ast.BinOp | ast.AugAssign):
        node.op = _BINARY[type(node.op)]
    elif kind == "comparison" and isinstance(node, ast.Compare):
        node.ops[0] = _COMPARED[type(node.ops[0])]
    elif kind == "constant" and isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        node.value += 1
    elif isinstance(node, ast.FunctionDef):
        node.body.insert(0, ast.Return(ast.Constant(None)))
