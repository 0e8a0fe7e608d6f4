"""Digests of the problem files that params name."""

from pathlib import Path

from tasks.artifacts import digest_path, digest_text
from tasks.params.params import Params
from tasks.problems.files import problem_files
from tasks.records.record import Record


class ProblemFile(Record):
    """Digest and number of problems of a file."""

    sha256: str
    problems: int


def digest_problem_files(root: Path, params: Params) -> dict[str, ProblemFile]:
    """The problem files by name; {} for generated problems."""
    if params.problems.source != "jsonl":
        return {}
    return {name: _data(file) for name, file in problem_files(root, params.problems.path).items()}


def _data(file: Path) -> ProblemFile:
    with file.open("rb") as lines:
        return ProblemFile(sha256=digest_path(file), problems=sum(1 for line in lines if line.strip()))


def problems_tag(root: Path, params: Params) -> dict[str, str]:
    """Tag of a run with the digest of all problem files."""
    files = digest_problem_files(root, params)
    if not files:
        return {}
    return {"problems_sha256": digest_text("".join(f"{name}\0{data.sha256}\n" for name, data in files.items()))}
