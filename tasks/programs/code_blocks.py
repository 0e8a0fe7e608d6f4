"""Extraction of code from a completion. Standard library only, since the sandbox's zygote imports it."""

import re

_FENCED = re.compile(r"^[ \t]*```[\w+-]*[ \t]*\n(.*?)(?:^[ \t]*```|\Z)", re.DOTALL | re.MULTILINE)
_FENCE = re.compile(r"^[ \t]*```.*$", re.MULTILINE)

_THINK, _END = "<think>", "</think>"


def code_of(text: str) -> str:
    """The workflow in a completion.

    Thoughts are left out: the text up to the last `</think>`, or all of a text that begins with an unclosed `<think>`.
    Code between ``` fences if there are any: the first block that defines `solve`, else the first block. An unclosed
    fence ends with the text; an empty block is dropped. Blank lines around the code and trailing blanks are removed;
    one newline ends it. A blank completion gives "". `code_of(code_of(text)) == code_of(text)`. Lone surrogates, which
    cannot be encoded, become U+FFFD.
    """
    text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").replace("\r\n", "\n")
    if text.lstrip().startswith(_THINK) and _END not in text:
        return ""
    text = text.rpartition(_END)[2]
    blocks = [block for block in _FENCED.findall(text) if block.strip()]
    chosen = next((block for block in blocks if "def solve" in block), None)
    if chosen is None:
        chosen = blocks[0] if blocks else _FENCE.sub("", text)
    stripped = re.sub(r"\A(?:[^\S\n]*\n)+", "", chosen).rstrip()
    return f"{stripped}\n" if stripped else ""
