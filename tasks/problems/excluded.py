"""Lines of problem files that a run leaves out: `problems.exclude` names a text file with the digest of each.

The digest is of the question and its answer, so a line whose key is mended is read again. What follows it is a remark.
"""

import json
import re
from pathlib import Path

from tasks.artifacts import digest_text, read_text
from tasks.errors import GraftError
from tasks.records.problems import Problem

DIGEST = re.compile(r"[0-9a-f]{16}")


def digest_line(problem: Problem) -> str:
    """The digest of a line, which depends neither on its place nor on its siblings."""
    return digest_text(json.dumps([problem.question, problem.answer], sort_keys=True))[:16]


def read_excluded(root: Path, name: str | None) -> frozenset[str]:
    """The digests in the file of `problems.exclude`. Raises GraftError that names the line of anything else."""
    digests = set[str]()
    for number, line in enumerate(read_text(root / name).split("\n") if name else (), start=1):
        digest, _, _ = line.strip().partition(" ")
        if DIGEST.fullmatch(digest):
            digests.add(digest)
        elif digest and not digest.startswith("#"):
            raise GraftError(
                f"{name}:{number}: {digest[:40]!r} is no digest of a line; take those that graft suspects --write gives"
            )
    return frozenset(digests)
