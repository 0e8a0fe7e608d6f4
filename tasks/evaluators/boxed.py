r"""The last closed `\boxed{}` of a text, where MATH's solutions and most models put their answer."""

import re

BLANK = r"[ \t\u00a0\u2009\u202f]"
"""A blank within a line, LaTeX's spaces included."""

_BL = BLANK + "{0,3}"
_BOX = re.compile(rf"\\(?:boxed|fbox){_BL}\{{|\\.|[{{}}]", re.DOTALL)
_PERCENT = re.compile(rf"{_BL}\\?%")


def last_box(text: str) -> str | None:
    """Content of the box that is closed last (the outer one of nested boxes), with a % that follows it; else None.

    Linear in the length of the text.
    """
    opened: list[int | None] = []  # for each open brace the start of its box, or None
    box = None
    for brace in _BOX.finditer(text):
        if brace[0] == "}":
            start = opened.pop() if opened else None
            if start is not None:
                percent = "%" if _PERCENT.match(text, brace.end()) else ""
                box = text[start : brace.start()] + percent
        elif brace[0] == "{":
            opened.append(None)
        elif brace[0].endswith("{") and len(brace[0]) > 2:
            opened.append(brace.end())
    return box
