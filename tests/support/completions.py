"""Completions as instruct models write them, each with the code that it means.

Every function under test is named `f` and doubles its argument; code means that it is taken, and nothing else.
"""

from typing import NamedTuple

NAME = "f"

CODE = "def f(x):\n    return 2 * x\n"
"""The code that most of the completions mean."""

_DRAFT = "def f(x):\n    return x + x + 1\n"
_IMPORTS = "import math\nfrom operator import mul\n"
_WITH_IMPORTS = "def f(x):\n    return math.floor(mul(2, x))\n"
_HELPER = "def twice(x):\n    return 2 * x\n"
_WITH_HELPER = "def f(x):\n    return twice(x)\n"
_WHOLE_FILE = f'import math\n\n\n{_HELPER}\n\n{_WITH_HELPER}\n\nif __name__ == "__main__":\n    print(f(3))\n'
_BODY = "    y = 2\n    return y * x\n"
_DOCUMENTED = 'def f(x):\n    """Twice x.\n\n    ```\n    f(2)\n    ```\n    """\n    return 2 * x\n'
_DOCUMENTED_FLAT = 'def f(x):\n    """Twice x.\n\n```python\nf(2)\n```\n"""\n    return 2 * x\n'
_IMPORTED_USAGE = "from solution import f\nf(3)\n"
_STUB = "def f(x):\n    ...\n"
_CLASS = "class f:\n    def __init__(self, x):\n        self.x = 2 * x\n"


class Completion(NamedTuple):
    """A completion and the code in it."""

    text: str
    code: str = CODE


def _fenced(code: str, language: str = "python", fence: str = "```") -> str:
    return f"{fence}{language}\n{code.rstrip()}\n{fence}\n"


_BLOCK = _fenced(CODE)

COMPLETIONS: dict[str, Completion] = {
    # nothing but code, and one block
    "plain": Completion(CODE),
    "one block": Completion(_BLOCK),
    "no language": Completion(_fenced(CODE, "")),
    "py": Completion(_fenced(CODE, "py")),
    "Python with a capital": Completion(_fenced(CODE, "Python")),
    "python 3": Completion(_fenced(CODE, "python3")),
    "title behind the language": Completion(_fenced(CODE, 'python title="solution.py"')),
    "another language all the same": Completion(_fenced(CODE, "text")),
    "prose before": Completion(f"Sure! Here is the function:\n\n{_BLOCK}"),
    "prose behind": Completion(f"{_BLOCK}\nIt's O(1). Let me know if you need `f` for lists, too!"),
    "prose around": Completion(f"The function `f` doubles:\n\n{_BLOCK}\n### Explanation\n\n- `2 * x` is twice x.\n"),
    "prose that says def f": Completion(f"I'll write `def f(x)` so that it doubles.\n{_BLOCK}"),
    "thoughts": Completion(f"<think>\nMaybe\n{_fenced(_DRAFT)}\nNo.\n</think>\n\n{_BLOCK}"),
    # blocks that are not the answer
    "bash before": Completion(f"```bash\npip install nothing\n```\n{_BLOCK}"),
    "text behind": Completion(f"{_BLOCK}Output:\n```text\n9\n```\n"),
    "bash before, text behind": Completion(f"```bash\npip install nothing\n```\n{_BLOCK}```text\n9\n```\n"),
    "usage behind": Completion(f"{_BLOCK}\nUsage:\n\n{_fenced('print(f(3))  # 6')}"),
    "usage before": Completion(f"You call it like this:\n{_fenced('y = f(3)')}\nThe code:\n{_BLOCK}"),
    "usage that imports it": Completion(f"{_BLOCK}\n{_fenced(_IMPORTED_USAGE)}"),
    "usage that says def f": Completion(f"{_BLOCK}\n{_fenced('print(f(3))  # needs def f above')}"),
    "tests behind": Completion(f"{_BLOCK}\nTests:\n{_fenced('assert f(2) == 4')}"),
    "session behind": Completion(f"{_BLOCK}\n```pycon\n>>> f(2)\n4\n```\n"),
    "json before": Completion(f'Input:\n```json\n{{"x": 2}}\n```\n{_BLOCK}'),
    "JavaScript before": Completion(f"```js\nfunction f(x) {{ return 2 * x }}\n```\nIn Python:\n{_BLOCK}"),
    "formula before": Completion(f"```\nf(x) = 2x\n```\n{_BLOCK}"),
    "pseudo code before": Completion(f"```\nfunction f(x):\n  give 2x\n```\nIn Python:\n{_BLOCK}"),
    "output that is Python": Completion(f"{_BLOCK}\n```text\ndef f(x):\n    return 9\n```\n"),
    # blocks that belong together
    "imports in a block of their own": Completion(
        f"First the imports:\n{_fenced(_IMPORTS)}\nThen the function:\n{_fenced(_WITH_IMPORTS)}",
        f"{_IMPORTS}\n{_WITH_IMPORTS}",
    ),
    "a helper in a block before": Completion(
        f"{_fenced(_HELPER)}\nwith which\n{_fenced(_WITH_HELPER)}", f"{_HELPER}\n{_WITH_HELPER}"
    ),
    "a helper in a block behind": Completion(
        f"{_fenced(_WITH_HELPER)}\nThe helper:\n{_fenced(_HELPER)}", f"{_WITH_HELPER}\n{_HELPER}"
    ),
    "imports, helper, function, usage": Completion(
        "".join(map(_fenced, (_IMPORTS, "def twice(x):\n    return mul(2, x)\n", _WITH_HELPER, "print(f(3))\n"))),
        f"{_IMPORTS}\ndef twice(x):\n    return mul(2, x)\n\n{_WITH_HELPER}",
    ),
    "all names of a module": Completion(
        "".join(map(_fenced, ("from math import *\n", "def f(x):\n    return floor(2 * x)\n"))),
        "from math import *\n\ndef f(x):\n    return floor(2 * x)\n",
    ),
    "imports that nothing needs": Completion(f"{_fenced(_IMPORTS)}{_BLOCK}"),
    # several versions
    "a corrected version": Completion(f"{_fenced(_DRAFT)}\nWait, that adds one too many. Corrected:\n\n{_BLOCK}"),
    "a corrected version of three": Completion(f"{_fenced(_DRAFT)}No.\n{_fenced(_DRAFT)}Now right:\n{_BLOCK}"),
    "a corrected version that is cut": Completion(f"{_BLOCK}\nShorter:\n```python\ndef f(x):\n    return (x"),
    "a broken draft": Completion(f"{_fenced('def f(x) return 2 * x')}\nA colon is missing:\n{_BLOCK}"),
    "a signature first": Completion(f"{_fenced(_STUB)}\nFilled in:\n{_BLOCK}"),
    # whole files
    "a whole file": Completion(_WHOLE_FILE, _WHOLE_FILE),
    "a whole file in a block": Completion(f"```python\n{_WHOLE_FILE}```", _WHOLE_FILE),
    "a whole file and how to run it": Completion(
        f"Save as `f.py`:\n{_fenced(_WHOLE_FILE)}\nand run\n```sh\npython f.py\n```\n", _WHOLE_FILE
    ),
    "a class": Completion(f"{_fenced(_CLASS)}\n{_fenced('print(f(2).x)')}", _CLASS),
    "a lambda": Completion(_fenced("f = lambda x: 2 * x\n"), "f = lambda x: 2 * x\n"),
    # tags
    "answer tags": Completion(f"<answer>\n{CODE}</answer>"),
    "answer tags in a line with code": Completion(f"<answer>{CODE.rstrip()}</answer>"),
    "answer tags around a block": Completion(f"<answer>\n{_BLOCK}</answer>\nDone."),
    "code tags and prose": Completion(f"Here it is:\n<code>\n{CODE}</code>\nIt doubles."),
    "HTML": Completion(f'<pre><code class="language-python">\n{CODE}</code></pre>'),
    "tags of Code Llama": Completion(f"[PYTHON]\n{CODE}[/PYTHON]\n[TESTS]\nassert f(2) == 4\n[/TESTS]"),
    "control tokens as text": Completion(f"<|channel|>final<|message|>{_BLOCK.rstrip()}<|im_end|>"),
    "a boxed block": Completion(f"\\boxed{{\n{_BLOCK}}}"),
    "languages with braces": Completion(_fenced(CODE, "{python}")),
    "a file as language": Completion(_fenced(CODE, "solution.py")),
    "another language behind": Completion(f"{_BLOCK}\nIn Java:\n{_fenced('int f(int x) { return 2 * x; }', 'java')}"),
    "decorated, and its import": Completion(
        "".join(map(_fenced, ("import functools\n", "@functools.cache\ndef f(x):\n    return 2 * x\n"))),
        "import functools\n\n@functools.cache\ndef f(x):\n    return 2 * x\n",
    ),
    "quotes in prose": Completion(f'I put """ around the docstring.\n{_BLOCK}'),
    "reasoning tags": Completion(f"<reasoning>\nTwice x.\n</reasoning>\n<answer>\n{CODE}\n</answer>\n"),
    "tags in a text of the code": Completion(
        _fenced('def f(x):\n    return "<b>" + x + "</b>"\n'), 'def f(x):\n    return "<b>" + x + "</b>"\n'
    ),
    # fences of other kinds
    "tildes": Completion(_fenced(CODE, fence="~~~")),
    "four backticks": Completion(_fenced(CODE, fence="````")),
    "an indented fence": Completion("1. Write\n\n   ```python\n   def f(x):\n       return 2 * x\n   ```\n2. Run"),
    "a fence behind a blank": Completion(f" ```python\n{CODE} ```"),
    "Windows line ends": Completion(f"Code:\n{_BLOCK}".replace("\n", "\r\n")),
    "a closing fence behind code": Completion(f"```python\n{CODE.rstrip()}```\nIt doubles."),
    "one line in a fence": Completion("```python def f(x): return 2 * x```", "def f(x): return 2 * x\n"),
    "one line in backticks": Completion("It is `def f(x): return 2 * x`.", "def f(x): return 2 * x\n"),
    # fences that are not closed, or not opened
    "unclosed": Completion(f"Here:\n```python\n{CODE}"),
    "unclosed, and usage that is cut": Completion(f"```python\n{CODE}\n\nprint(f("),
    "unclosed, and prose": Completion(f"```python\n{CODE}\nThis function doubles its argument."),
    "a lone closing fence": Completion(f"{CODE}```"),
    "a lone closing fence and prose": Completion(f"import math\n{CODE}```\nThis doubles x.", f"import math\n{CODE}"),
    "a lone closing fence and usage": Completion(f"{CODE}```\nUsage:\n{_fenced('print(f(2))')}"),
    "cut in the function": Completion(
        "Here:\n```python\ndef f(x):\n    return (x", "def f(x):\n    return (x\n"
    ),
    "cut in the function, behind imports": Completion(
        f"{_fenced(_IMPORTS)}\n```python\ndef f(x):\n    return (x", "def f(x):\n    return (x\n"
    ),
    # fences in docstrings
    "a fence in a docstring": Completion(_DOCUMENTED, _DOCUMENTED),
    "a fence in a docstring in a block": Completion(f"Here:\n{_fenced(_DOCUMENTED)}\nDone.", _DOCUMENTED),
    "an unindented fence in a docstring": Completion(f"Here:\n{_fenced(_DOCUMENTED_FLAT)}\nDone.", _DOCUMENTED_FLAT),
    "a fence in a docstring, and usage": Completion(
        f"{_fenced(_DOCUMENTED)}\nUsage:\n{_fenced('print(f(2))')}", _DOCUMENTED
    ),
    # without fences
    "prose around plain code": Completion(f"Here is the function:\n\n{CODE}\nIt doubles its argument."),
    "imports in plain code with prose": Completion(
        f"I use operator.\n\n{_IMPORTS}\n\n{_WITH_IMPORTS}\nThat is all.", f"{_IMPORTS}\n{_WITH_IMPORTS}"
    ),
    # the rest of a function that the prompt begins
    "a body": Completion(_BODY, _BODY),
    "a body in a block": Completion(f"Here is the rest of `def f(x)`:\n{_fenced(_BODY)}", _BODY),
    "a body and a lone closing fence": Completion(f"{_BODY}```\nThis doubles x.", _BODY),
    # none
    "blank": Completion(" \n", ""),
    "an empty block": Completion("```python\n```", ""),
    "thoughts that are cut": Completion(f"<think>\nMaybe\n{_BLOCK}", ""),
    "prose alone": Completion("I cannot write that.", "I cannot write that.\n"),
}  # fmt: skip
