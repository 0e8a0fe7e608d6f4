"""README and docs/: links, commands, params, paths and code blocks are valid; generated pages are current."""

import ast
import importlib.util
import re
import shlex
from functools import cache
from pathlib import Path

import pytest
import typer
from markdown.extensions.toc import slugify
from ruamel.yaml import YAML

from docs.reference import pages
from flows.cli.app import app
from tasks.environments.word_problems.worked_answers import WorkedAnswers
from tasks.params.file import overridden
from tests.support.tiny_project import REPOSITORY

FILES = [REPOSITORY / name for name in ("README.md", "CONTRIBUTING.md", "AGENTS.md", "llms.txt")]
FILES += [*sorted((REPOSITORY / "docs").glob("*.md")), *sorted((REPOSITORY / "docs" / "results").glob("*.md"))]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
PARAMS = (REPOSITORY / "params.yaml").read_text(encoding="utf-8")
SECTIONS = {name: value for name, value in YAML().load(PARAMS).items() if isinstance(value, dict)}
FOLDERS = r"`((?:flows|tasks|tests|benchmarks|docs|examples)/[\w./-]*)`"
every_file = pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)


def blocks(file: Path, language: str) -> list[str]:
    return [text for found, text in BLOCK.findall(file.read_text(encoding="utf-8")) if found == language]


def prose(file: Path) -> str:
    """The text without blocks, each paragraph and each item of a list on one line."""
    return re.sub(
        r"(?<=[^|\n])\n +(?=[^-|])|(?<=[^|\n])\n(?=[^\n#|<-])", " ", BLOCK.sub("", file.read_text(encoding="utf-8"))
    )


def present(file: Path) -> str:
    """The prose about the code as it is: of results, without the paragraphs that name the commit they were made at."""
    dated = r"^.*\bcommit `[0-9a-f]{7,40}`.*$" if file.parent.name == "results" else r"(?!)"
    return re.sub(dated, "", prose(file), flags=re.MULTILINE)


@cache
def anchors(file: Path) -> set[str]:
    """The anchors of its headings that GitHub and the site agree on."""
    headings = re.findall(r"^#+ +(.*?) *$", prose(file), re.MULTILINE)
    on_github = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
    return on_github & {slugify(heading, "-") for heading in headings}


def test_the_readme_is_two_screens() -> None:
    text = FILES[0].read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 200


@every_file
def test_links_lead_somewhere(file: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(file)):
        if not re.match(r"\w+:", target):
            path, _, anchor = target.partition("#")
            other = (file.parent / path).resolve() if path else file
            assert other.exists(), target
            assert not anchor or anchor in anchors(other), target


@every_file
def test_paths_in_the_text_exist(file: Path) -> None:
    for path in re.findall(FOLDERS, present(file)):
        assert (REPOSITORY / path).exists() or "N" in path, path


@every_file
def test_params_in_the_text_exist(file: Path) -> None:
    names = [name for code in re.findall(r"`([^`\n]+)`", present(file)) for name in re.findall(r"[\w.]+", code)]
    for name in names:
        section, _, key = name.partition(".")
        if section in SECTIONS and key and not re.search(r"\.(py|jsonl?|yaml|key)$", name):
            value = SECTIONS[section]
            for part in key.split("."):
                assert value is not None, name
                assert part in value, name
                value = value[part]


def commands(file: Path) -> list[list[str]]:
    """The simple commands of its sh blocks and of the inline code that begins with `graft`, `make` or a benchmark."""
    shell = "".join(re.sub(r"<<'END'.*?^END$", "", block, flags=re.M | re.S) for block in blocks(file, "sh"))
    lines = shell.replace("\\\n", " ").splitlines()
    lines += [
        code
        for code in re.findall(r"`([^`\n]+)`", present(file))
        if re.match(r"(graft|make) [a-z]|python -m benchmarks", code)
    ]
    words = [shlex.split(line, comments=True) for line in lines]
    simple: list[list[str]] = []
    for line in words:
        line = [part for word in line for part in ([word[:-1], ";"] if word.endswith(";") else [word])]
        while {"&&", ";"} & {*line}:
            place = min(line.index(sign) for sign in ("&&", ";") if sign in line)
            simple.append(line[:place])
            line = line[place + 1 :]
        simple.append(line)
    return [[Path(words[0]).name, *words[1:]] for words in map(without_variables, simple) if words]


def without_variables(words: list[str]) -> list[str]:
    while words and re.fullmatch(r"[A-Z_]+=.*", words[0]):
        words = words[1:]
    return words


@every_file
def test_commands_exist(file: Path) -> None:
    targets = set(re.findall(r"^([\w-]+):", (REPOSITORY / "Makefile").read_text(), re.MULTILINE))
    for name, *arguments in commands(file):
        if name == "make":
            assert {word for word in arguments if "=" not in word} <= targets, arguments
        elif name == "graft" and arguments and not arguments[0].startswith("-"):
            check_graft(arguments)
        elif name == "python" and arguments[:1] == ["-m"] and arguments[1].startswith("benchmarks."):
            module = REPOSITORY / arguments[1].replace(".", "/")
            script = module / "__main__.py" if module.is_dir() else module.with_suffix(".py")
            source = script.read_text(encoding="utf-8")
            shared = re.findall(r"^from (benchmarks\.\w+) import .*\bparser_of\b", source, re.MULTILINE)
            source += "".join(
                (REPOSITORY / f"{name.replace('.', '/')}.py").read_text(encoding="utf-8") for name in shared
            )
            assert all(f'"{word}"' in source for word in arguments[2:] if word.startswith("-")), arguments


def check_graft(arguments: list[str]) -> None:
    group = typer.main.get_command(app)
    command = group.get_command(group.make_context("graft", [], resilient_parsing=True), arguments[0])  # type: ignore[attr-defined]
    assert command is not None, arguments
    if len(arguments) > 1 and arguments[1:] != ["--help"] and "…" not in " ".join(arguments):
        values = command.make_context(arguments[0], arguments[1:]).params  # an unknown option raises
        if values.get("assignments"):
            overridden(REPOSITORY / "params.yaml", PARAMS, values["assignments"])


@every_file
def test_python_blocks_run(file: Path) -> None:
    """A block that loads a model is compiled and its imports are resolved; excerpts, marked `py`, are only parsed."""
    for text in blocks(file, "py"):
        ast.parse(text)
    for text in blocks(file, "python"):
        if "from_pretrained" not in text:
            exec(compile(text, str(file), "exec"), {"__name__": "page"})
            continue
        for node in ast.parse(text).body:
            if isinstance(node, ast.ImportFrom) and node.module:
                assert importlib.util.find_spec(node.module)


def test_the_example_environment_overrides_methods_of_its_base_class() -> None:
    (text,) = [block for block in blocks(REPOSITORY / "docs" / "environments.md", "python") if "class Parity" in block]
    names: dict[str, type] = {"__name__": "page"}  # type: ignore[dict-item]
    exec(text, names)
    own = {name for name in vars(names["Parity"]) if not name.startswith("_")}
    assert own <= {*dir(WorkedAnswers)}
    environment = names["Parity"]()
    assert environment.check(environment.parse("yes."), 4)


@pytest.mark.parametrize("path", pages(), ids=lambda path: path.name)
def test_generated_pages_are_as_generated(path: Path) -> None:
    assert path.read_text(encoding="utf-8") == pages()[path], "run: python -m docs.reference"


def test_every_patch_of_a_library_is_explained() -> None:
    text = (REPOSITORY / "docs" / "internals.md").read_text(encoding="utf-8")
    for patch in (REPOSITORY / "flows" / "dvc_stages" / "patches").glob("[!_]*.py"):
        assert f"`{patch.relative_to(REPOSITORY)}`" in text
