r"""Notations of mathematics as one: plain text and typography, `x**2` and `½`, as LaTeX for math-verify's grammar.

    normalise     x² ≤ \dfrac12        →  x^{2} \le \frac12          characters and synonyms, of any answer
    to_latex      3 1/2 + sqrt(x)(y)   →  (3+\frac{1}{2})+\sqrt{x}\cdot (y)   of one expression

The grammar reads some text otherwise than it is meant and says nothing: `2(3)` and `2 3` are 5 for it, `x'` is x and
`4210_5` is 4210. So `to_latex` writes every product out and refuses what is ambiguous, such as `a/bc`, or unknown.
Nothing here evaluates text.
"""

import re
import unicodedata

FUNCTIONS = {
    "sin", "cos", "tan", "sec", "csc", "cot", "arcsin", "arccos", "arctan", "sinh", "cosh", "tanh", "ln", "log",
}  # fmt: skip
"""Functions of one argument, with or without brackets."""

_SYMBOLS = {
    "alpha", "beta", "delta", "epsilon", "varepsilon", "zeta", "eta", "theta", "vartheta", "iota", "kappa", "lambda",
    "mu", "nu", "xi", "rho", "sigma", "tau", "upsilon", "phi", "varphi", "chi", "psi", "omega", "pi", "infty", "Delta",
    "Theta", "Lambda", "Xi", "Sigma", "Phi", "Psi", "Omega",
}  # fmt: skip
_INVERSES = {"asin": "arcsin", "acos": "arccos", "atan": "arctan"}

WORDS = FUNCTIONS | _INVERSES.keys() | {"sqrt", "exp", "abs", "pi", "phi", "theta", "alpha", "beta", "lambda", "omega"}
"""Words that are mathematics without a backslash too; `xi` is x·i."""

_CHARACTERS = str.maketrans({
    **dict.fromkeys("−﹣－–—‐‑", "-"), **dict.fromkeys("×·⋅∗•✕", "*"), **dict.fromkeys("÷∕⁄", "/"),
    **dict.fromkeys("\u00a0\u2009\u202f\u2002\u2003\u200a", " "), **dict.fromkeys("“”″’‘′", "'"),
    "√": r"\sqrt ", "∛": r"\sqrt[3]", "∞": r"\infty ", "º": "°", "˚": "°", "％": "%", "±": r"\pm ", "∓": r"\mp ",
    "≤": r"\le ", "≥": r"\ge ", "⩽": r"\le ", "⩾": r"\ge ", "≠": r"\ne ", "≈": r"\approx ", "∪": r"\cup ",
    "∩": r"\cap ", "∈": r"\in ", "∅": r"\emptyset ", "ℝ": r"\mathbb{R}", "ℤ": r"\mathbb{Z}", "ℕ": r"\mathbb{N}",
    "ℚ": r"\mathbb{Q}", "ℂ": r"\mathbb{C}", "…": r"\ldots ", "∖": r"\setminus ", "⟨": r"\langle ", "⟩": r"\rangle ",
    "∠": r"\angle ", "ℯ": "e", "ⅈ": "i", "ℓ": r"\ell ", "π": r"\pi ", "θ": r"\theta ", "α": r"\alpha ", "β": r"\beta ",
    "δ": r"\delta ", "ε": r"\epsilon ", "λ": r"\lambda ", "μ": r"\mu ", "σ": r"\sigma ", "φ": r"\phi ", "ϕ": r"\phi ",
    "ω": r"\omega ", "ρ": r"\rho ", "τ": r"\tau ", "Δ": r"\Delta ", "Ω": r"\Omega ", "γ": r"\gamma ",
})  # fmt: skip
_RAISED = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ⁿˣ", "0123456789+-nx")
_LOWERED = str.maketrans("₀₁₂₃₄₅₆₇₈₉", "0123456789")
_VULGAR = re.compile("[¼½¾⅐-⅞]")

# In this order: a later pattern reads what an earlier one has written.
_REWRITES = [(re.compile(pattern), replacement) for pattern, replacement in (
    (r"\\(?:left|right)(?![A-Za-z])\s*\.?|\\(?:[bB]igg?[lr]?|displaystyle|textstyle|limits|rm)(?![A-Za-z])", ""),
    (r"(?<=\d)\s*(?:\{\s*,\s*\}|,\\!)\s*(?=\d{3}(?!\d))", ""),  # 32{,}348
    (r"(?<![\d.])(\d{1,3})((?:(?:\\,|~|\\ | )\d{3})+)(?!\d|\s*/)", lambda m: m[1] + re.sub(r"\D", "", m[2])),
    (r"\\!", ""),
    (r"(?<!\\)\\[,;: ]|~|\\q?quad(?![A-Za-z])|[\t\r\n]", " "),
    (r"\\[dtc]frac(?![A-Za-z])", r"\\frac"),
    (r"\\(?:cdot|times|ast)(?![A-Za-z])", "*"),
    (r"\*\*", "^"),
    (r"\\div(?![A-Za-z])", "/"),
    (r"\s*\^\s*(?:\\circ|\{\s*\\circ\s*\})(?![A-Za-z])|\\degree(?![A-Za-z])", "°"),
    (r"\\(?:leq|leqslant)(?![A-Za-z])|<=|=<", r"\\le "),
    (r"\\(?:geq|geqslant)(?![A-Za-z])|>=", r"\\ge "),
    (r"\\neq(?![A-Za-z])|!=|<>", r"\\ne "),
    (r"\\lt(?![A-Za-z])", "<"),
    (r"\\gt(?![A-Za-z])", ">"),
    (r"==", "="),
    (r"\\mathrm\s*\{([^{}]*)\}\s*/\s*\\mathrm\s*\{([^{}]*)\}", r"\\text{\1/\2}"),
    (r"\\begin\{array\}\s*\{[lcr| ]*\}", r"\\begin{matrix}"),
    (r"\\end\{array\}", r"\\end{matrix}"),
    (r"\\lg(?![A-Za-z])", r"\\log"),
    (r"\{([^{}]*)\\choose(?![A-Za-z])([^{}]*)\}", r"\\binom{\1}{\2}"),
    (r"\\(?:l|r)?vert(?![A-Za-z])", "|"),
    (r"\\lbrace(?![A-Za-z])", r"\\{"),
    (r"\\rbrace(?![A-Za-z])", r"\\}"),
    (r"\\lbrack(?![A-Za-z])", "["),
    (r"\\rbrack(?![A-Za-z])", "]"),
    (r"\\varnothing(?![A-Za-z])|\\\{\s*\\\}", r"\\emptyset "),
    (r"\\(?:l|c)?dots(?![A-Za-z])|\.\.\.", r"\\ldots "),
    (r"\\langle(?![A-Za-z])", "("),
    (r"\\rangle(?![A-Za-z])", ")"),
    (r"\\colon(?![A-Za-z])|(?:\\(?:text(?:rm|bf|it|normal)?|mathrm|mathpunct|mathbin|mbox)\s*)?\{\s*:\s*\}", ":"),
    (r"\\%", "%"),
    (r"\\(?:backslash|smallsetminus)(?![A-Za-z])", r"\\setminus "),
    (r"(?<![A-Za-z\\])(?:oo|inf|[Ii]nfinity)(?![A-Za-z])", r"\\infty "),
    (r"(?<=[\])])\s*U\s*(?=[\[(])", r"\\cup "),
    (r"\+/-", r"\\pm "),
    (r"\\(?:mathrm|text|operatorname)\s*\{\s*([ei])\s*\}|\\(?:mathit|mathbf)\s*\{\s*([A-Za-z])\s*\}", r" \1\2 "),
    (r"\\operatorname\s*\{([a-z]+)\}", r"\\\1 "),
    (r"\\text(?:rm|bf|it|normal)?\s*\{\s*(and|or)\s*\}", r" \1 "),
    (r"\s*(?:\bpercent(?:age)?\b|\bpct\b|\\text\s*\{\s*(?:percent|pct)\s*\})", "%"),
    (r"(?<=[\d)}])\s*(?:\bdegrees?\b|\\text\s*\{\s*degrees?\s*\})", "°"),
)]  # fmt: skip

_REPEATING = re.compile(
    r"(?<![\d.])(\d*)\.(\d*)(?:\\(?:overline|bar|dot)\s*\{(\d+)\}|\\(?:overline|bar|dot)\s*(\d)|\((\d+)\))(?!\d)"
)
_GOING_ON = re.compile(r"(?<![\d.])(\d*)\.(\d{0,40}?)(\d{1,40}?)\3+\s*\\ldots(?![A-Za-z])\s*")
_SCIENTIFIC = re.compile(r"(?<![\w.\\])(\d+(?:\.\d*)?|\.\d+)[eE]([+-]?\d+)(?!\w)")
_TIMES_TEN = re.compile(r"(?<=\d)\s*[xX]\s*(?=10\s*\^)")

_NUMBER = re.compile(r"\d+(?:\.\d+)?|\.\d+")
_MIXED = re.compile(r"(\d+)\s+(\d+)\s*/\s*(\d+)(?![\d.^!]|\s*[\^!])")
_COMMAND = re.compile(r"\\([A-Za-z]+)")
_LETTERS = re.compile(r"[A-Za-z]+")
_MATRIX = re.compile(r"\\(?:begin|end)\{[pbvV]?matrix\}")
_DIGITS = re.compile(r"\{?(\d+)\}?")
_PAIRS = {"(": ")", "{": "}", "[": "]"}


def normalise(text: str) -> str:
    """An answer in one alphabet: ASCII and LaTeX, without delimiters, sizes of brackets and a full stop at the end."""
    # Raised, lowered and vulgar characters come before NFKC, for which x² is x2 and 1½ is 11⁄2.
    text = re.sub(r"[⁰¹²³⁴-⁹⁺⁻ⁿˣ]+", lambda m: "^{" + m[0].translate(_RAISED) + "}", text)
    text = re.sub(r"[₀-₉]+", lambda m: "_{" + m[0].translate(_LOWERED) + "}", text)
    text = re.sub(r"√\s*(\d+(?:\.\d+)?)", r"\\sqrt{\1}", text)
    text = _VULGAR.sub(lambda m: _fraction(*unicodedata.normalize("NFKC", m[0]).split("⁄")), text)
    text = unicodedata.normalize("NFKC", text.translate(_CHARACTERS))
    text = re.sub(r"\\[()]|(?<!\\)\\\[|(?<!\\)\\\]", " ", text)
    if len(re.findall(r"(?<!\\)\$", text)) % 2 == 0:  # in pairs they are delimiters, a single one is a currency
        text = re.sub(r"(?<!\\)\$", " ", text)
    text = text.replace(r"\$", "$")
    for pattern, replacement in _REWRITES:
        text = pattern.sub(replacement, text)
    text = _REPEATING.sub(lambda m: _repeating(m[1], m[2], m[3] or m[4] or m[5]), text)
    text = _GOING_ON.sub(lambda m: _repeating(m[1], m[2], m[3]), text)
    text = _TIMES_TEN.sub("*", text)
    text = _SCIENTIFIC.sub(r"(\1*10^{\2})", text)
    text = re.sub(r"\s+", " ", text).strip()
    return text[:-1].rstrip() if text.endswith(".") else text


def to_latex(text: str) -> str:
    """One normalised expression as LaTeX in which every product is written out.

    Raises ValueError for what is ambiguous, unknown or no expression: a list, a relation, a unit, words.
    """
    return _Writer(text).expression()


def split(text: str, separator: "re.Pattern[str]") -> list[str]:
    """The parts of a text between the separators outside brackets, and the separators: part, separator, part, …"""
    parts, depth, start, place = [], 0, 0, 0
    while place < len(text):
        if text[place] in "([{":
            depth += 1
        elif text[place] in ")]}":
            depth -= 1
        elif depth == 0 and (mark := separator.match(text, place)):
            parts += [text[start:place], mark[0]]
            start = place = mark.end()
            continue
        place += 1
    return [part.strip() for part in [*parts, text[start:]]]


def closing(text: str, start: int) -> int:
    """The place of the bracket that closes the one at `start`, of any kind. Raises ValueError if there is none."""
    depth = 0
    for place in range(start, len(text)):
        depth += (text[place] in "([{") - (text[place] in ")]}")
        if depth == 0:
            return place
    raise ValueError("an open bracket")


def _repeating(whole: str, fixed: str, period: str) -> str:
    top = int(whole + fixed + period) - int((whole + fixed) or "0")
    return _fraction(top, (10 ** len(period) - 1) * 10 ** len(fixed))


def _fraction(top: object, bottom: object) -> str:
    return rf"\frac{{{top}}}{{{bottom}}}"


class _Writer:
    """Writes one expression, from left to right; `kind` is that of the last piece."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._place = 0
        self._pieces: list[str] = []
        self._kind = "start"  # start, operator, number, operand, function

    def expression(self) -> str:
        while self._rest():
            self._piece()
        if self._kind in ("start", "operator", "function"):
            raise ValueError("no operand at the end")
        return "".join(self._pieces)

    def _rest(self) -> str:
        while self._text[self._place : self._place + 1] == " ":
            self._place += 1
        return self._text[self._place :]

    def _piece(self) -> None:
        char = self._text[self._place]
        if mixed := _MIXED.match(self._text, self._place):
            self._place = mixed.end()
            self._operand(_mixed(*mixed.groups()))
        elif number := _NUMBER.match(self._text, self._place):
            self._place = number.end()
            self._operand(number[0], "number")
        elif matrix := _MATRIX.match(self._text, self._place):
            self._matrix(matrix)
        elif command := _COMMAND.match(self._text, self._place):
            self._place = command.end()
            self._word(command[1])
        elif letters := _LETTERS.match(self._text, self._place):
            self._letters(letters[0])
        elif char in "([{":
            self._operand("(" + to_latex(self._argument()) + ")")
        elif char in "^_":
            self._script(char)
        elif char in "+-*/":
            self._place += 1
            self._operator(char)
        elif char == "!" and self._kind in ("number", "operand") and not self._pieces[-1].endswith("!"):
            self._place += 1
            self._pieces[-1] += "!"
            self._kind = "operand"
        elif char == "|":
            end = self._text.find("|", self._place + 1)
            inner, self._place = self._text[self._place + 1 : end], end + 1
            if end < 0:
                raise ValueError("an open bar")
            self._operand("|" + to_latex(inner) + "|")
        elif char == "°" and self._kind == "number":
            self._place += 1
            self._pieces[-1] = rf"({self._pieces[-1]}\cdot \frac{{\pi }}{{180}})"
            self._kind = "operand"
        else:
            raise ValueError(f"{char!r} in an expression")

    def _operator(self, char: str) -> None:
        if self._kind == "function" or (self._kind in ("start", "operator") and char in "*/"):
            raise ValueError("no operand before an operator")
        self._pieces.append(r"\cdot " if char == "*" else char)
        self._kind = "operator"

    def _operand(self, piece: str, kind: str = "operand") -> None:
        """Append an operand; next to another one it is a factor."""
        if self._kind in ("number", "operand"):
            if piece[0] in "0123456789." and not self._pieces[-1].endswith("!"):
                raise ValueError("a number after an operand")
            self._close_quotient()
            self._pieces.append(r"\cdot ")
        self._pieces.append(piece)
        self._kind = kind

    def _close_quotient(self) -> None:
        """1/2 x is (1/2)x; raise ValueError for a/b x, which could be either."""
        if self._pieces[-2:-1] == ["/"]:
            top, bottom = self._pieces[-3], self._pieces[-1]
            if not (_NUMBER.fullmatch(top) and _NUMBER.fullmatch(bottom)) or self._pieces[-4:-3] == ["/"]:
                raise ValueError("an ambiguous quotient")
            self._pieces[-3:] = [rf"\frac{{{top}}}{{{bottom}}}"]

    def _letters(self, run: str) -> None:
        """A known word, a function with a variable (`sinx`), or a product of variables."""
        if run in WORDS:
            self._place += len(run)
            return self._word(_INVERSES.get(run, run))
        if len(run) > 2 and self._text.startswith("(", self._place + len(run)):
            raise ValueError("an unknown function")
        if run[:-1] in FUNCTIONS:
            self._place += len(run) - 1
            return self._word(run[:-1])
        self._place += 1
        self._operand(run[0])
        if len(run) == 1 and run in "fgh" and self._text[self._place : self._place + 1] == "(":
            self._pieces[-1] += "(" + to_latex(self._argument()) + ")"
        if self._text[self._place : self._place + 1] == "'":
            raise ValueError("a prime")
        return None

    def _word(self, name: str) -> None:
        if name in ("frac", "binom"):
            top, bottom = self._argument(), self._argument()
            self._fraction(name, top, bottom)
        elif name == "sqrt":
            root = ""
            if self._rest().startswith("["):
                root = "[" + to_latex(self._argument()) + "]"
            self._operand(rf"\sqrt{root}{{{to_latex(self._argument())}}}")
        elif name == "exp":
            self._operand(f"e^{{{to_latex(self._argument())}}}")
        elif name == "abs":
            self._operand(f"|{to_latex(self._argument())}|")
        elif name in ("lfloor", "lceil"):
            end = self._text.find("\\r" + name[1:], self._place)
            if end < 0:
                raise ValueError("an open bracket")
            inner, self._place = self._text[self._place : end], end + len(name) + 1
            self._operand(rf"\{name} {to_latex(inner)} \r{name[1:]} ")
        elif name in FUNCTIONS:
            self._function(name)
        elif name in _SYMBOLS:
            self._operand(rf"\{name} ")
        else:
            raise ValueError(rf"\{name} in an expression")

    def _fraction(self, name: str, top: str, bottom: str) -> None:
        digits = _DIGITS.fullmatch(top), _DIGITS.fullmatch(bottom)
        if self._kind == "number" and name == "frac" and all(digits) and self._pieces[-1].isdigit():
            self._kind = "operator"
            self._operand(_mixed(self._pieces.pop(), top, bottom))
        else:
            self._operand(rf"\{name}{{{to_latex(top)}}}{{{to_latex(bottom)}}}")

    def _function(self, name: str) -> None:
        r"""`\sin^{2} 2x` as `\sin^{2}(2\cdot x)`: without brackets all factors to the next function."""
        piece = rf"\{name} "
        while self._rest()[:1] in ("^", "_"):
            mark, self._place = self._text[self._place], self._place + 1
            piece += f"{mark}{{{to_latex(self._argument(whole=True))}}}"
        start = self._place
        if self._rest()[:1] in ("(", "["):
            argument = self._argument()
        elif self._rest()[:1] == "|":
            self._place = self._text.find("|", self._place + 1) + 1 or len(self._text)
            argument = self._text[start : self._place]
        else:
            while self._rest() and not re.match(r"[-+*/°)\]|,]|\(|\[", self._rest()) and self._factor():
                pass
            argument = self._text[start : self._place]
            if self._rest()[:1] in ("/", "(", "["):
                raise ValueError("an ambiguous argument")
        self._operand(f"{piece}({to_latex(argument)})")

    def _factor(self) -> bool:
        """Skip a factor of a function's argument, with its powers; False at another function."""
        word = re.match(r"\\?([A-Za-z]+)", self._rest())
        if word and (word[1] in FUNCTIONS or word[1][:-1] in FUNCTIONS):
            return False
        self._argument(whole=True)
        while self._rest()[:1] in ("^", "_", "!", "°"):
            self._place += 1
            if self._text[self._place - 1] in "^_":
                self._argument(whole=True)
        return True

    def _script(self, mark: str) -> None:
        if self._kind not in ("number", "operand") or (mark == "_" and self._kind == "number"):
            raise ValueError("a power or an index of nothing")
        self._place += 1
        argument = self._argument(whole=True)
        if mark == "_":
            if not re.fullmatch(r"[\w+\- ,]{1,20}", argument):
                raise ValueError("an index")
            self._pieces[-1] += f"_{{{argument.replace(' ', '')}}}"
        else:
            while self._rest()[:1] == "^":  # a^b^c is a^(b^c)
                self._place += 1
                argument = f"({argument})^({self._argument(whole=True)})"
            if argument.strip() == "T":
                raise ValueError("a transposed matrix")
            self._pieces[-1] += f"^{{{to_latex(argument)}}}"
        self._kind = "operand"

    def _argument(self, whole: bool = False) -> str:
        """The text of the next argument: in brackets, with a sign, a command with its arguments, a letter, a digit.

        `whole`: all digits of a number.
        """
        rest = self._rest()
        start = self._place
        if rest[:1] in _PAIRS:
            end = closing(self._text, start)
            if self._text[end] != _PAIRS[rest[0]]:
                raise ValueError("brackets that do not match")
            self._place = end + 1
            return self._text[start + 1 : end]
        if rest[:1] in ("+", "-"):
            self._place += 1
            return rest[0] + self._argument(whole)
        if whole and (number := _NUMBER.match(self._text, start)):
            self._place = number.end()
        elif command := _COMMAND.match(self._text, start):
            self._place = command.end()
            for _ in range({"frac": 2, "binom": 2, "sqrt": 1}.get(command[1], 0)):
                self._argument()
        elif rest and rest[0].isalnum():
            word = _LETTERS.match(rest)
            self._place += len(word[0]) if word and word[0] in WORDS else 1
        else:
            raise ValueError("no argument")
        return self._text[start : self._place]

    def _matrix(self, begin: "re.Match[str]") -> None:
        end = self._text.find(begin[0].replace("begin", "end"), begin.end())
        if end < 0 or "begin" not in begin[0]:
            raise ValueError("an open matrix")
        rows = re.split(r"\\\\", self._text[begin.end() : end].strip().removesuffix(r"\\"))
        cells = [[to_latex(cell.strip()) for cell in row.split("&")] for row in rows]
        self._place = end + len(begin[0]) - 2
        body = r"\\".join("&".join(row) for row in cells)
        self._operand(begin[0] + body + begin[0].replace("begin", "end"))


def _mixed(whole: str, top: str, bottom: str) -> str:
    top, bottom = top.strip("{}"), bottom.strip("{}")
    if not int(top) < int(bottom):
        raise ValueError("a mixed number that is none")
    return rf"({whole}+\frac{{{top}}}{{{bottom}}})"
