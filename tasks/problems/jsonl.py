"""Problems from files: one JSON object per line, in one of the formats of tasks/problems/formats.py."""

import heapq
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tasks.artifacts import digest_text
from tasks.environments.lookup import environment_in
from tasks.environments.protocol import CheckedProblems, Environment
from tasks.errors import GraftError
from tasks.evaluators.number import kind_of, shorten
from tasks.evaluators.scores import BUILT_IN, Evaluator, own_evaluator
from tasks.known_problems import question_key
from tasks.params.params import Params
from tasks.params.sections import BY_FORMAT, SandboxParams
from tasks.problems.excluded import digest_line, read_excluded
from tasks.problems.files import problem_files, problem_text, rows_of, where_of
from tasks.problems.formats import OWN, recognise
from tasks.problems.row import ColumnError, Columns, Format, Row, check_characters, other_columns
from tasks.problems.variants import variants_of
from tasks.records.problems import NUMBER, PROBLEM_ID, Answer, Problem, Sibling
from tasks.sources.user_modules import digest_modules

MOST_NAMED = 50
"""Most places that an error names."""

LONGEST = 64
"""Questions that are looked at before a run: of those with the most bytes one has the most tokens."""

Place = tuple[str, str]
"""(name of a file, place in it: "line 3", or "item 3" of a JSON list)."""


@dataclass
class Reader:
    """Reads problems from texts, none of which asks what another one has asked."""

    evaluator: str = BY_FORMAT  # by name for all problems, or BY_FORMAT for that of each file's format
    root: Path = field(default_factory=Path.cwd)  # of the project, where a user's evaluator is
    sha256: str | None = None  # of a user's evaluator
    environment: Environment | None = None  # whose formats are read, too
    siblings: int = 0  # most variants of a question that are made where a line has paraphrases or paragraphs
    sandbox: SandboxParams | None = None  # where the environment tries problems; without it they are taken as they are
    loads: bool = True  # False takes answers as they are instead of loading a user's evaluator
    excluded: frozenset[str] = frozenset()  # digests of lines that are left out
    formats: dict[str, Format] = field(default_factory=dict)  # of each file that was read
    places: dict[str, Place] = field(default_factory=dict)  # of each problem, by its id
    notes: list[str] = field(default_factory=list)  # what is doubtful in files, each with its place
    _questions: dict[str, Place] = field(default_factory=dict)

    def read(self, name: str, text: str, source: str) -> list[Problem]:
        """The problems of one file; `name` is used in errors, `source` in the records. Blank lines are ignored, and
        those that are excluded.

        Raises GraftError that names file, line and column: not JSON, a missing column or one of the wrong kind, two
        lines, of this file or an earlier one, with the same id or question, siblings included; what the environment
        refuses.
        """
        problems = {}
        for place, row in rows_of(name, text):
            where = where_of(name, place)
            known = self.formats.get(name) or self.formats.setdefault(name, self.format_of(where, row))
            problem = self.problem(where, known, row, source)
            if digest_line(problem) in self.excluded:
                self.notes.append(f"{where}: left out by problems.exclude")
                continue
            self._refuse_repeated(name, place, problem)
            problems[place] = problem
        return list(self._taken(name, problems).values())

    def _taken(self, name: str, problems: Mapping[str, Problem]) -> Mapping[str, Problem]:
        """The problems by place as the environment takes them. Raises GraftError that names the places of those that
        it refuses.
        """
        taken, refused, doubts = self.tried(problems)
        self.notes += [f"{where_of(name, place)}: {what}" for place, what in doubts.items()]
        if refused:
            first, *others = refused
            also = f"; the same or the like in {', '.join(others[:MOST_NAMED])}" if others else ""
            more = f" and {len(others) - MOST_NAMED} more" if len(others) > MOST_NAMED else ""
            raise GraftError(f"{where_of(name, first)}: {refused[first]}{also}{more}")
        return taken

    def tried(self, problems: Mapping[str, Problem]) -> CheckedProblems:
        """The problems by place as the environment takes them, and why it refuses others."""
        if self.sandbox is None or self.environment is None:
            return CheckedProblems(problems, {}, {})
        return self.environment.check_problems(problems, self.sandbox)

    def format_of(self, where: str, row: dict[str, Any]) -> Format:
        """The format of a file, from its first line. Raises GraftError that begins with `where` if none is known."""
        try:
            return recognise(row, self.environment.formats if self.environment else ())
        except ColumnError as error:
            raise GraftError(f"{where}: {error}") from None

    def problem(self, where: str, known: Format, row: dict[str, Any], source: str) -> Problem:
        """The problem of one row. Raises GraftError that begins with `where`.

        Its siblings are those of the line; without any, as many variants of the question as are wanted.
        """
        try:
            return self._problem(known, row, source)
        except KeyError as error:
            needed = "needs a question and an answer" if known is OWN else f"of {known.name} has it"
            raise GraftError(f"{where}: {error.args[0]}: missing; every line {needed}") from None
        except ColumnError as error:
            raise GraftError(f"{where}: {error}") from None

    def _problem(self, known: Format, row: dict[str, Any], source: str) -> Problem:
        evaluator, columns = known.evaluator if self.evaluator == BY_FORMAT else self.evaluator, Columns(row)
        read = _read(known, columns)
        problem_id = read.problem_id or _problem_id(known, columns) or f"q-{digest_text(read.question)[:16]}"
        listed = columns["siblings"] if known.read is OWN.read and row.get("siblings") is not None else None
        answer, fields = self._answer(evaluator, read.column, read.answer, known), other_columns(row, columns.used)
        if evaluator == "choice":
            _check_choice(read.question, answer, read.column)
        siblings = self._listed_siblings(evaluator, row, listed, question_key(read.question)) if listed else []
        if read.parts and not siblings:
            texts = variants_of(read.parts, self.siblings)
            siblings = [Sibling(question=text, answer=answer, fields=fields) for text in texts]
        return Problem(
            problem_id=problem_id,
            question=read.question,
            answer=answer,
            source=source,
            siblings=siblings,
            evaluator=evaluator,
            evaluator_sha256=self.sha256 if ":" in evaluator else None,
            fields=fields,
        )

    def _answer(self, evaluator: str, column: str, answer: Answer, known: Format = OWN) -> Answer:
        """An answer of a line as the record holds it."""
        if answer is None:
            raise KeyError(column)
        check_characters(column, answer)
        try:
            return self._parsed(evaluator, answer, rules_of(evaluator, known))
        except ValueError as error:
            remedy = "write a number, or a text that ends in #### 72" if evaluator == NUMBER else "fix the line"
            other = f"or set problems.evaluator ({evaluator} here) to another"
            if evaluator == NUMBER and isinstance(answer, list):
                other = "or set problems.evaluator to text or f1, where each in a list is right (as in NQ-open)"
            raise ColumnError(column, f"{error}; {remedy}, {other}") from None

    def _parsed(self, evaluator: str, answer: Answer, rules: Evaluator | None) -> Answer:
        if rules:
            return rules.parse(answer)
        own: Any = own_evaluator(self.root, evaluator, self.sha256) if self.loads else None
        parsed: Answer = own.parse(answer) if hasattr(own, "parse") else answer
        return parsed

    def _listed_siblings(self, evaluator: str, row: dict[str, Any], listed: Any, asked: str) -> list[Sibling]:
        """The siblings that a line lists; `asked`: the key of its own question."""
        if not isinstance(listed, list):
            raise ColumnError("siblings", f"{kind_of(listed)}, not a list of {{question, answer}}; fix the field")
        siblings = []
        for place, sibling in enumerate(listed):
            column = f"siblings.{place}"
            if not isinstance(sibling, dict):
                raise ColumnError(column, f"{kind_of(sibling)}, not {{question, answer}}; fix the field")
            inherited: dict[str, Any] = {name: row[name] for name in ("context", "distractor_contexts") if name in row}
            try:
                columns = Columns(inherited | sibling)
                read = OWN.read(columns)
                if question_key(read.question) == asked:
                    raise ColumnError("question", "asks the same as its own line; remove it")
                answer = self._answer(evaluator, "answer", read.answer)
                fields = other_columns(sibling, columns.used)
            except KeyError as error:
                raise KeyError(f"{column}.{error.args[0]}") from None
            except ColumnError as error:
                raise ColumnError(f"{column}.{error.column}", error.reason) from None
            siblings.append(Sibling(question=read.question, answer=answer, fields=fields))
        return siblings

    def _refuse_repeated(self, name: str, place: str, problem: Problem) -> None:
        where = where_of(name, place)
        keys = [question_key(question) for question in problem.questions]
        # the question first: lines without ids and with the same question have the same id as well
        for key in keys:
            if key in self._questions:
                first = _line_at(self._questions[key], name)
                raise GraftError(f"{where}: {first} asks the same; remove one of the two")
        if problem.problem_id in self.places:
            first = _line_at(self.places[problem.problem_id], name)
            raise GraftError(
                f"{where}: {first} has the problem_id {problem.problem_id!r} too; give one of the two another id"
            )
        self.places[problem.problem_id] = (name, place)
        self._questions |= dict.fromkeys(keys, (name, place))


def rules_of(evaluator: str, known: Format) -> Evaluator | None:
    """The rules of an evaluator that is built in, or the format's own; None for a user's."""
    return known.rules if known.rules and evaluator == known.evaluator else BUILT_IN.get(evaluator)


def make_reader(root: Path, params: Params, loads: bool = True) -> Reader:
    """A reader of the files of `problems.path`, which tries them out if it `loads` what is the user's."""
    own, environment = params.problems, environment_in(root, params)
    module, user_defined, _ = own.evaluator.partition(":")
    digest = digest_modules(root, [module]) if loads and user_defined else None
    sandbox, excluded = params.sandbox if loads else None, read_excluded(root, own.exclude)
    return Reader(own.evaluator, root, digest, environment, own.siblings, sandbox, loads, excluded)


def _check_choice(question: str, letter: Answer, column: str) -> None:
    """Raise ColumnError for the letter of a choice that the question does not show."""
    if not re.search(rf"^\W*{letter}\W|\({letter}\)|\b{letter}[):]", question, re.MULTILINE):
        raise ColumnError(
            column,
            f"the question shows no choice {letter}; write all of them into it, as {letter}) …, or as a list `choices`",
        )


def read_files(
    files: Iterable[tuple[str, str, str]], reader: Reader, report: Callable[[str], None] | None = None
) -> list[Problem]:
    """The problems of files (name, text, source), in order.

    `report` gets a line on the format of each file, and one for each place at which something is doubtful.
    """
    problems = list[Problem]()
    for name, text, source in files:
        found = reader.read(name, text, source)
        problems += found
        if report and found:
            siblings = sum(len(problem.siblings) for problem in found) or "no"
            known = reader.formats[name].name
            report(f"{name}: {len(found)} problems in the format {known}, {found[0].evaluator}, {siblings} siblings")
            if columns := sorted({column for problem in found for column in problem.fields}):
                report(f"{name}: columns that no question shows: {', '.join(map(ascii, columns[:MOST_NAMED]))}")
    if report:
        for note in reader.notes[:MOST_NAMED]:
            report(note)
    return problems


def longest_questions(root: Path, params: Params) -> dict[str, str]:
    """`longest_of` the problems in the files of `problems.path`.

    Raises GraftError where a file cannot be read.
    """
    return longest_of(problems_by_place(root, params, make_reader(root, params, loads=False)))


def longest_of(problems: Mapping[str, Problem]) -> dict[str, str]:
    """The LONGEST questions of most bytes, by the places of their problems."""
    asked = ((place, max(problem.questions, key=_bytes)) for place, problem in problems.items())
    return dict(heapq.nlargest(LONGEST, asked, key=lambda pair: _bytes(pair[1])))


def problems_by_place(root: Path, params: Params, reader: Reader) -> dict[str, Problem]:
    """The problems in the files of `problems.path`, by file and line. Raises GraftError where one cannot be read."""
    files = problem_files(root, params.problems.path).items()
    problems = read_files(((name, problem_text(name, file), file.name) for name, file in files), reader)
    return {where_of(*reader.places[problem.problem_id]): problem for problem in problems}


def _bytes(text: str) -> int:
    return len(text.encode())


def _line_at(place: Place, here: str) -> str:
    return place[1] if place[0] == here else where_of(*place)


def _read(known: Format, row: Columns) -> Row:
    """The row as its format reads it. Raises ColumnError or KeyError."""
    try:
        return known.read(row)
    except ColumnError:
        raise
    except (TypeError, AttributeError, ValueError) as error:
        raise ColumnError(known.name, f"a list or object has another form ({error}); fix the line") from None


def _problem_id(known: Format, row: Columns) -> str | None:
    """The line's id, None without one. In Graft's own format and those like it ids name files as they are written."""
    if known.read is not OWN.read:
        return known.problem_id(row)
    name = next((name for name in ("problem_id", "id") if row.peek(name) is not None), None)
    if name is None:
        return None
    given = row[name]
    if isinstance(given, bool) or not isinstance(given, str | int) or not re.fullmatch(PROBLEM_ID, str(given)):
        raise ColumnError(
            name,
            f"{shorten(str(given))} cannot name a file; "
            "use 1 to 100 letters, digits, '.', '_' and '-', and begin with none of the last two",
        )
    return str(given)
