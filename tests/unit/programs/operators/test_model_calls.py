"""Operators that a model serves: programs in the real sandbox, and a model that is a function of the prompt."""

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tasks.errors import GraftError
from tasks.params.sections import Operators
from tasks.programs.operators.model import CachedModel, Prompt, Reply
from tasks.programs.operators.model_calls import MAX_PROMPT, MODEL_OPERATORS, NOT_REPEATABLE
from tasks.programs.sandbox.lockdown import LAYERS
from tasks.programs.sandbox.sandbox import Program, Sandbox
from tasks.records.programs import Result
from tests.support.stage_params import SHIPPED

KEY = "sk-never-in-the-sandbox"


class Function:
    """A model whose reply is a function of the prompt; it records its prompts."""

    def __init__(self, reply: Callable[[Prompt], str | Reply], name: str = "function") -> None:
        self.reply, self.name = reply, name
        self.asked: list[Prompt] = []
        self.batches: list[int] = []

    def complete(self, prompts: Sequence[Prompt]) -> Iterator[tuple[int, Reply]]:
        self.batches.append(len(prompts))
        for place, prompt in reversed(list(enumerate(prompts))):  # replies come in any order
            self.asked.append(prompt)
            given = self.reply(prompt)
            yield place, Reply(given, prompt_tokens=2, completion_tokens=1) if isinstance(given, str) else given


def served(model: Function, folder: Path, **changes: Any) -> CachedModel:
    return CachedModel(model, Operators.model_validate({**SHIPPED.operators.model_dump(), **changes}), folder)


def solving(body: str) -> str:
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    return f"def solve(problem):\n{lines}"


def value(body: str, model: Function, folder: Path, layers: Sequence[str] = LAYERS, **changes: Any) -> Result:
    """The result of a workflow of these lines on "q"."""
    served_model = served(model, folder, **changes)
    with Sandbox(2.0, 256, allow_weak=True, workers=1, layers=layers, model=served_model) as sandbox:
        ((result,),) = sandbox.run([Program(solving(body), ("q",))])
    return result


OPERATORS: dict[str, tuple[str, Callable[[Prompt], str], Any]] = {
    "ask": ("return ask('Say it', 'twice')", lambda p: p.text, "Say it\n\ntwice"),
    "answer": ("return answer(problem)", lambda _: "3 + 4 = 7\nAnswer: **7**.", 7),
    "answer in words": ("return answer(problem)", lambda _: "Answer: seven or eight", "seven or eight"),
    "answer with a unit": ("return answer(problem)", lambda _: "answer: $1,200 a year", 1200),
    "answer without a mark": ("return answer(problem)", lambda _: "I think\n12", 12),
    "write_code": (
        "return run(write_code(problem), 'two and 40')",
        lambda _: "Here:\n```python\ndef solve(problem):\n    return sum(numbers(problem))\n```\nDone.",
        42,
    ),
    "ensemble": ("return ensemble([5, 6, 5], problem)", lambda _: "B", 6),
    "ensemble of equals": ("return ensemble([5, 5], problem)", lambda _: 1 / 0, 5),
    "ensemble without a letter": ("return ensemble([6, 5, 5], problem)", lambda _: "no idea", 5),
    "review": ("return review(problem, 5)", lambda p: "wrong" if "5" in p.text else "", "wrong"),
    "revise": ("return revise(problem, 5, 'too small')", lambda p: f"Answer: {6 if 'too small' in p.text else 0}", 6),
    "revise code": ("return revise(problem, 'x', 'y')", lambda _: "```\nx = 1\n```", "x = 1\n"),
    "check": ("return 1 if check(problem, 5) else 0", lambda _: "No doubt.\nYES", 1),
    "check that fails": ("return 1 if check(problem, 5) else 0", lambda _: "yes? no.", 0),
}


@pytest.mark.parametrize("name", OPERATORS)
def test_each_operator(name: str, tmp_path: Path) -> None:
    body, reply, expected = OPERATORS[name]
    model = Function(reply)
    calls = 0 if name == "ensemble of equals" else 1
    usage = {"calls": calls, "prompt_tokens": 2 * calls, "completion_tokens": calls}
    assert value(body, model, tmp_path) == Result(status="ok", value=expected, **usage)


def test_each_operator_has_a_case_and_a_line_for_the_prompt() -> None:
    assert {name.split()[0] for name in OPERATORS} == set(MODEL_OPERATORS)
    assert all((function.__doc__ or "").split("\n")[0].endswith((".", ").")) for function in MODEL_OPERATORS.values())


def test_programs_share_batches_and_no_prompt_is_sent_twice(tmp_path: Path) -> None:
    model = Function(lambda p: str(len(p.text)))
    body = "a = ask(problem)\nb = ask(a)\nreturn a + b"
    with Sandbox(2.0, 256, allow_weak=True, workers=2, model=served(model, tmp_path)) as sandbox:
        results = sandbox.run([Program(solving(body), ("q" * n,)) for n in (3, 4, 5)] * 2)
    assert [result.value for (result,) in results] == ["31", "41", "51"] * 2
    assert model.batches == [3, 3]
    assert max(Counter((p.text, p.nth) for p in model.asked).values()) == 1


def test_a_repeated_prompt_is_another_draw_and_the_budget_of_prompts_is_kept(tmp_path: Path) -> None:
    model = Function(lambda p: str(p.nth))
    assert value("return ask('a') + ask('b') + ask('a') + ask('a')", model, tmp_path / "draws").value == "0012"
    model = Function(lambda _: "x")
    endless = "while True:\n    ask('more')"
    usage = {"calls": 3, "prompt_tokens": 6, "completion_tokens": 3}
    assert value(endless, model, tmp_path, calls=3) == Result(status="error", error="asks more than 3 prompts", **usage)
    assert len(model.asked) == 3
    assert value("return ask('1') + ask('2') + ask('3')", model, tmp_path, calls=3).status == "ok"


def test_replies_depend_on_the_program_alone(tmp_path: Path) -> None:
    """Other programs, the order, the number of workers and the cache change nothing."""
    codes = [solving(f"return ask('{i % 3}') + ask(problem) + ask('{i % 3}')") for i in range(6)]
    programs, outcomes = [Program(code, ("x", "y")) for code in codes], []
    for folder, order, workers in ((tmp_path / "a", 1, 1), (tmp_path / "b", -1, 2), (tmp_path / "a", -1, 2)):
        model = Function(lambda p: f"<{p.text}{p.nth}>")
        with Sandbox(2.0, 256, allow_weak=True, workers=workers, model=served(model, folder)) as sandbox:
            outcomes.append(sandbox.run(programs[::order])[::order])
    assert outcomes[0] == outcomes[1] == outcomes[2]


def test_a_missing_reply_is_a_failure_that_no_program_can_hide(tmp_path: Path) -> None:
    down = Function(lambda _: Reply(failed="no reply from http://x"))
    hiding = "try:\n    return ask('a')\nexcept BaseException:\n    return 5\nfinally:\n    ask('b')"
    for body in ("return ask('a')", hiding):
        assert value(body, down, tmp_path) == Result(status="failed", error="ask(): no reply from http://x")
    assert value("return ask('a')", Function(lambda _: "up"), tmp_path).value == "up"


def test_mistakes_of_a_program_are_its_errors(tmp_path: Path) -> None:
    """A refused prompt, an invalid one, one without a model, and another one in the second run."""
    refusing, fine = Function(lambda _: Reply(refused="900 tokens")), Function(lambda _: "x")
    assert value("return ask('a')", refusing, tmp_path) == Result(status="error", error="ask(): 900 tokens")
    invalid = f"ValueError: ask() asks with Unicode text of at most {MAX_PROMPT} characters"
    for text in (f"'x' * {MAX_PROMPT + 1}", r"'\ud800'"):
        assert value(f"return ask({text})", refusing, tmp_path) == Result(status="error", error=invalid)
    for text in (f"'x' * {MAX_PROMPT}", f"'\\u20ac' * {MAX_PROMPT}"):
        assert value(f"return ask({text})", fine, tmp_path).value == "x"
    body = "import sys\na = ask(str(sys.modules['ctypes'].CDLL(None).clock()))\nreturn ask('b')"
    with_clock = ("user", "landlock", "memory")
    assert value(body, fine, tmp_path, with_clock) == Result(status="error", error=NOT_REPEATABLE)
    with Sandbox(2.0, 256, allow_weak=True, workers=1) as sandbox:
        ((result,),) = sandbox.run([Program(solving("return ask('a')"), ("q",))])
    assert result == Result(status="error", error="ask() has no model here: operators.backend is none")


def test_waiting_for_a_model_does_not_count_as_the_programs_time(tmp_path: Path) -> None:
    def slow(_: Prompt) -> str:
        time.sleep(0.4)
        return "x"

    with Sandbox(0.3, 256, allow_weak=True, workers=1, model=served(Function(slow), tmp_path)) as sandbox:
        ((result,),) = sandbox.run([Program(solving("return ask('a') + ask('b')"), ("q",))])
    assert result.value == "xx"


@pytest.mark.parametrize("forged", [
    '["ask", "open", "/etc/passwd"]', '["ask", "ask", 5]', '["ask", "ask", "\\ud800"]', '["ask", "ask"]',
    json.dumps(["ask", "ask", "x" * (MAX_PROMPT + 1)]),
])  # fmt: skip
def test_a_forged_prompt_is_never_sent(forged: str, tmp_path: Path) -> None:
    model = Function(lambda _: "x")
    result = value(f"import os\nos.write(3, {forged!r}.encode())\nos._exit(0)", model, tmp_path)
    assert result.status in ("killed", "error")
    assert model.asked == []


def test_a_program_finds_neither_key_nor_client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    look = (
        "import gc, os, sys\nask('a')\n"
        "seen = repr(os.environ) + repr(gc.get_objects()) + repr([vars(m) for m in sys.modules.values() if m])\n"
        f"if ''.join(reversed({KEY[::-1]!r})) in seen:\n    return 'key'\n"
        "return 'openai' if 'openai' in sys.modules else 'nothing'"
    )
    assert value(look, Function(lambda _: "x"), tmp_path).value == "nothing"


def test_replies_are_cached_by_content(tmp_path: Path) -> None:
    prompts = [Prompt("ask", "a"), Prompt("ask", "a", 1), Prompt("review", "a")]
    first = Function(lambda p: f"{p.text}{p.nth}")
    assert [r.text for r in served(first, tmp_path).complete(prompts)] == ["a0", "a1", "a0"]
    second = Function(lambda _: 1 / 0)
    assert [r.text for r in served(second, tmp_path).complete(prompts)] == ["a0", "a1", "a0"]
    other = Function(lambda _: "other", name="another model")
    assert served(other, tmp_path).complete(prompts)[0].text == "other"


def test_a_damaged_cache_entry_is_asked_again(tmp_path: Path) -> None:
    served(Function(lambda _: "a"), tmp_path).complete([Prompt("ask", "a")])
    (file,) = tmp_path.rglob("*.json")
    for damage in ("", "{", "[]", '{"text": 5, "x": 1}', '{"text": null}', '{"text": 5}'):
        file.write_text(damage)
        assert served(Function(lambda _: "b"), tmp_path).complete([Prompt("ask", "a")])[0].text == "b"


def test_replies_before_a_breakdown_are_kept(tmp_path: Path) -> None:
    def breaking(prompt: Prompt) -> str:
        if prompt.text == "a":  # the last one: replies come backwards here
            raise GraftError("the server is gone")
        return "x"

    model = served(Function(breaking), tmp_path)
    with pytest.raises(GraftError):
        model.complete([Prompt("ask", text) for text in "abc"])
    again = Function(lambda _: "y")
    assert [r.text for r in served(again, tmp_path).complete([Prompt("ask", t) for t in "abc"])] == ["y", "x", "x"]


def test_the_ledger(tmp_path: Path) -> None:
    def reply(prompt: Prompt) -> str | Reply:
        return Reply(failed="down") if prompt.text == "c" else "x"

    prompts = [Prompt("ask", text) for text in "aabc"]
    first = served(Function(reply), tmp_path, price=(1.0, 10.0))
    first.complete(prompts)
    assert first.metrics == {"model_calls": 4, "model_tokens": 6, "model_failed": 1}
    assert first.cost == pytest.approx((2 * 2 * 1.0 + 2 * 1 * 10.0) / 1e6)
    second = served(Function(lambda _: "x"), tmp_path, price=(1.0, 10.0))
    second.complete(prompts[:3])
    assert (second.ledger.asked, second.ledger.remembered, second.cost) == (2, 2, 0.0)
    book = tmp_path / "ledger.jsonl"
    first.log_usage(book, "search@1")
    second.log_usage(book, "search@2")
    assert [json.loads(line)["paid"] for line in book.read_text().splitlines()] == [[4, 2], [0, 0]]
    unpriced = served(Function(lambda _: "x"), tmp_path)
    unpriced.complete([Prompt("ask", "a")])
    assert unpriced.cost is None
    assert "cost unknown (operators.price is not set)" in unpriced.describe()
    assert "$0.0000" in served(Function(lambda _: "x"), tmp_path, price=(1.0, 1.0)).describe()
