"""The problems that a policy's lineage knows: what it learnt from and what it was tested on, as digests in its folder.

What was learnt from is never tested on, and what was tested on is never learnt from, however params and files change
between runs. The record goes where the policy goes. It counts train and validation as learnt from, trained on or not.
"""

from collections.abc import Iterable, Mapping, Sequence
from os.path import isfile  # pathlib's own may raise for the id of a model
from pathlib import Path
from unicodedata import normalize

from tasks.artifacts import digest_text, read_json
from tasks.layout import KNOWN
from tasks.records.problems import Problem, Split, WorkedExample
from tasks.records.record import Record

KEY = 16
"""Characters of a digest, 64 bits: of a million questions two share one with a probability of 3e-8."""


class KnownProblems(Record):
    """Keys of questions, siblings' included, sorted. No key is in both lists."""

    learnt: list[str]
    tested: list[str]

    def with_run(
        self, splits: Mapping[Split, Sequence[Problem]], demonstrations: Sequence[WorkedExample] = ()
    ) -> "KnownProblems":
        """What is known after a run with these problems, whose first policy learnt from these demonstrations."""
        learnt, tested = keys_of(*splits["train"], *splits["validation"]), keys_of(*splits["test"]).union(self.tested)
        learnt |= {question_key(example.question) for example in demonstrations} - tested
        return KnownProblems(learnt=sorted(learnt.union(self.learnt)), tested=sorted(tested))


NOTHING = KnownProblems(learnt=[], tested=[])


def question_key(question: str) -> str:
    """Equal for questions that differ in case, blanks and the encoding of accents alone."""
    return digest_text(" ".join(normalize("NFC", question).casefold().split()))[:KEY]


def keys_of(*problems: Problem) -> set[str]:
    """The keys of the problems' questions. Two problems that share one are the same problem."""
    return {question_key(question) for problem in problems for question in problem.questions}


def unknown(problems: Sequence[Problem], keys: Iterable[str]) -> list[Problem]:
    """The problems none of whose questions has one of the keys."""
    known = set(keys)
    return [problem for problem in problems if known.isdisjoint(keys_of(problem))] if known else list(problems)


def read_known(policy: Path) -> KnownProblems:
    """The record in the folder of a policy; of an older policy, and of any other base, NOTHING."""
    return read_json(policy / KNOWN, KnownProblems) if isfile(policy / KNOWN) else NOTHING
