"""`params.yaml`: typed, restricted, rewritten without losing a comment, and every mistake named."""

import io
import re
from pathlib import Path
from typing import Any

import pytest
from dvc.fs import localfs
from dvc.utils.serialize import load_path
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.errors import GraftError
from tasks.params.file import leaf_of, load_params, restrict
from tasks.params.params import Params
from tasks.params.sections import Lora
from tests.support.params_file import override

SHIPPED = Path(__file__).parents[3] / "params.yaml"
TEXT = SHIPPED.read_text()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "params.yaml"
    path.write_text(TEXT)
    return path


def leaves(section: Any, prefix: str = "") -> dict[str, Any]:
    """Dotted key → value of every param; `rounds` is one param."""
    found = {}
    for name in type(section).model_fields:
        value = getattr(section, name)
        if hasattr(type(value), "model_fields") and name != "rounds":
            found |= leaves(value, f"{prefix}{name}.")
        else:
            found[f"{prefix}{name}"] = value
    return found


LEAVES = leaves(load_params(SHIPPED))


def test_the_shipped_file_is_valid_and_explains_every_param() -> None:
    plain = [line for line in TEXT.splitlines() if re.match(r"\s*\w+:", line) and "#" not in line]
    sections = [line for line in plain if line.endswith(":")]
    assert plain == sections
    assert load_params(SHIPPED).rounds.start == {n: n - 1 for n in range(1, load_params(SHIPPED).rounds.last + 1)}


@pytest.mark.parametrize(("old", "new", "message"), [
    ("seed: 0", "sede: 0", r"no param 'sede'; did you mean 'seed'\?"),
    ("  beta:", "  betta:", r"no param 'update\.betta'; did you mean 'update\.beta'\?"),
    ("seed: 0", "seed: 0\nxyzzy: 1", r"no param 'xyzzy'; the sections are seed, environment, alg"),
    ("  beta: 0.01", "  beta: -1", r"update\.beta: .*greater than or equal to 0, not -1"),
    ("  loss: dapo", "  loss: ppo", r"update\.loss: write one of .*, or module:function of your own, not 'ppo'"),
    ("    rank: 16", "    rnk: 16", r"no param 'policy\.lora\.rnk'; did you mean 'policy\.lora\.rank'\?"),
    ("targets: all-linear", "targets: all", r"policy\.lora\.targets: write all-linear, or a list .*not 'all'"),
    ("  beta: 0.01", "  beta: .nan", r"update\.beta: .*finite number, not nan"),
    ("  own: []", "  own: [{name: a, term: a.b, weight: 1}]",
     r"rewards\.own\.0\.term: write module:function, .*, not 'a\.b'"),
    ("  own: []", '  own: [{name: runs, term: "a:b", weight: 1}]',
     r"rewards\.own: 'runs' is the name of Graft's own;"),
    ("  own: []", '  own: [{name: x, term: "a:b", weight: 1}, {name: x, term: "a:c", weight: 1}]',
     r"rewards\.own: 'x' is the name of a second term; choose another"),
    ("seed: 0", "seed: true", r"seed: .*integer, not True"),
    ("environment: workflow", "environment: a:b:c", r"environment\.name: write the name of a built-in one, or"),
    ("  own: []", "  own: []\n  environment: {}",
     r"no param 'rewards\.environment'; did you mean 'environment\.weights'\?"),
    ('"2": 1', '"2": 0', r"rounds: start must be the chain"),
    ('"1": 0', "1: 0", r"rounds\.start: the rounds must be in quotes"),
    ("  ks: [1, 5, 10]", "  ks: [1, 11]",
     r"evaluation: samples \(20\) must .* largest k \(11\), .*raise samples to 22"),
    ("seed: 0", "seed: 0\nseed: 1", r"not YAML: "), ("seed: 0", "seed: a: b", r"not YAML: "),
])  # fmt: skip
def test_a_mistake_is_named_with_its_line_and_remedy(file: Path, old: str, new: str, message: str) -> None:
    assert old in TEXT
    file.write_text(TEXT.replace(old, new, 1))
    with pytest.raises(GraftError, match=rf"^{re.escape(str(file))}:\d+: {message}") as error:
        load_params(file)
    assert "\n" not in str(error.value)
    named = re.search(r":(\d+): ", str(error.value))
    assert named is not None
    pairs = zip(TEXT.splitlines(), file.read_text().splitlines(), strict=False)
    changed = next(number for number, (before, now) in enumerate(pairs, start=1) if before != now)
    assert -1 <= changed - int(named[1]) <= 3  # the line itself, the one after it, or the head of its section


def test_the_first_screen_names_what_people_turn_and_each_is_at_the_head_of_its_section() -> None:
    """The head of the file is a list of them, for people."""
    lines, named = TEXT.splitlines(), list[str]()
    for line in lines[:40]:
        if line.startswith("#   "):
            section = ""
            for name in re.split(r",? +", line[4:].partition("  ")[0]):
                section = section if name.startswith(".") else name.partition(".")[0]
                named.append(f"{section}{name}" if name.startswith(".") else name)
    assert len(named) == 13
    assert named[:2] == ["seed", "environment"]
    sections = list(dict.fromkeys(key.partition(".")[0] for key in named))
    assert sections == re.findall(r"(?m)^(\w+):", TEXT)[: len(sections)]
    for section in {key.partition(".")[0] for key in named if "." in key}:
        at = next(n for n, line in enumerate(lines) if line.startswith(f"{section}:"))
        leaves = [leaf_of(key) for key in named if key.startswith(f"{section}.")]
        assert [line.split(":")[0].strip() for line in lines[at + 1 : at + 1 + len(leaves)]] == leaves


VLLM = ["vllm=bfloat16", "machine.vllm.address=http://127.0.0.1:8000/v1"]
OWN_TERM = 'rewards.own=[{name: x, term: "a.b:c", weight: 0.1}]'


@pytest.mark.parametrize(("assignments", "key", "value"), [
    (["rewards.correctness=0", OWN_TERM], "rewards.correctness", 0),
    (["policy.lora=null", "influence.selection=none"], "policy.lora", None),
    (["policy.lora={rank: 4, alpha: 8, targets: [q_proj, v_proj]}", "influence.selection=positive"], "policy.lora",
     Lora(rank=4, alpha=8.0, targets=["q_proj", "v_proj"])),
    (["evaluation.every=2", "problems.dev=50"], "evaluation.every", 2),
    (["evaluation.every=2", "problems.dev=50"], "problems.dev", 50),
    (["search.samples=100", "search.simulations=100"], "search.samples", 100),
    (["search.problems=80"], "search.problems", 80),
    (["algorithm=ppo", "search.simulations=8"], "algorithm", "ppo"),
    (["algorithm=ppo", "environment=answer"], "algorithm", "ppo"),
    (["algorithm=ppo", "environment=answer", "influence.selection=positive", "influence.similarity=dot"], "algorithm",
     "ppo"),
    (VLLM, "vllm", "bfloat16"),
    (["vllm=float16", "machine.vllm.command=[vllm, serve]"], "machine.vllm.command", ["vllm", "serve"]),
    ([*VLLM, "update.sampler_correction=truncate"], "update.sampler_correction", "truncate"),
    (["update.bf16=true", "update.sampler_correction=mask"], "update.sampler_correction", "mask"),
    (["policy.base=a/b", "policy.dtype=bfloat16", "update.sampler_correction=mask"], "policy.dtype", "bfloat16"),
    (["policy.lora=null", "influence.selection=none", "policy.dtype=float32"], "policy.dtype", "float32"),
])  # fmt: skip
def test_params_that_fit_together_are_accepted(file: Path, assignments: list[str], key: str, value: Any) -> None:
    override(file, assignments)
    assert read(load_params(file), key) == value


@pytest.mark.parametrize(("assignments", "message"), [
    (["policy.lora=null", "influence.selection=positive"],
     r"FILE: influence: selection is positive, .* policy\.lora is null: set influence\.selection to audit, or "),
    (["update.sharded=true"], r"update\.sharded: sharded is true, but a single process has .*: set processes to 2"),
    (["update.sharded=true", "update.processes=2", "policy.lora=null", "influence.selection=none"],
     r"FILE: update: sharded is true, but only a frozen base is sharded and policy\.lora is null: set sharded to"),
    (["policy.quantize=nf4"],
     r"policy: quantize \(nf4\) is for the frozen base .* a model from scratch is trained whole"),
    (["policy.quantize=nf4", "policy.base=a/b", "policy.lora=null", "influence.selection=none"],
     r"policy: quantize \(nf4\) is for the frozen base of an adapter, but lora is null: set quantize to null"),
    (["policy.quantize=nf4", "policy.base=a/b", "update.sharded=true", "update.processes=2"],
     r"FILE: update: sharded is true, but a base of type nf4 is not sharded: set sharded to false, or policy"),
    (["policy.dtype=bfloat16"],
     r"policy: dtype \(bfloat16\) is for the frozen base .* scratch is trained whole first, .*: set dtype to auto"),
    (["policy.dtype=bfloat16", "policy.base=a/b", "policy.lora=null", "influence.selection=none"],
     r"policy: dtype \(bfloat16\) is for the frozen base .* lora is null, and weights that are trained are float32"),
    (["policy.base=a/b", "policy.dtype=float32", "update.sampler_correction=mask"], r"FILE: update: .* does nothing "),
    (["evaluation.every=2"],
     r"FILE: evaluation: every is 2, but there are no problems .*: set problems\.dev to 100, for instance, or"),
    (["problems.dev=50"], "FILE: evaluation: every is 0, so nothing is measured on the 50 .*: "
     r"set evaluation\.every to 1, or problems"),
    (["problems.exclude=out.txt"], r"FILE: problems\.exclude: 'out\.txt' does nothing: an environment writes its own"),
    (["vllm=bfloat16"], r"FILE: machine: vllm is bfloat16, but there is no server: set machine\.vllm\.address or"),
    ([*VLLM, "machine.vllm.command=[vllm]"], r"FILE: machine\.vllm: address and command are both set, .* to null"),
    (["machine.vllm.address=ftp://a"], r"FILE: machine\.vllm\.address: .*not 'ftp://a'"),
    (["machine.vllm.address=http://me:word@a/v1"], r"machine\.vllm\.address: contains .*export VLLM_API_KEY"),
    ([*VLLM, "vllm=int8"], r"FILE: vllm: .*'float16', not 'int8'"),
    ([*VLLM, "search.top_p=0.9"],
     r"FILE: vllm: bfloat16, but vLLM does not return the sets that search\.top_p \(0\.9\) and .*top_k \(0\) keep"),
    ([*VLLM, "search.top_k=20"], r"FILE: vllm: bfloat16, .* set these to 1 and 0, or vllm to null"),
    (["update.sampler_correction=mask"],
     r"FILE: update: sampler_correction \(mask\) does nothing .*: set it to none, vllm to bfloat16, or update"),
    (["machine.tracking.uri=./mlruns"], r"FILE: machine\.tracking\.uri: is a folder, .*; name a database: sqlite:///"),
    (["machine.tracking.uri=file:///data/mlruns"], r"FILE: machine\.tracking\.uri: is a folder, in which MLflow keeps "
     "no runs.*: mlflow migrate-filestore --source /data/mlruns --target sqlite:///mlflow.db"),
    (["algorithm=ppo", "environment=answer", "influence.selection=positive"],
     r"ppo: influence\.similarity is local, .* algorithm ppo has one for each token: set influence\.similarity to dot"),
    (["update.kl_target=0.1", "update.beta=0"],
     r"FILE: update\.kl_target: 0\.1 does nothing where beta is 0, .*null, or beta"),
    (["update.kl_target=0"], r"FILE: update\.kl_target: .*greater than 0, not 0"),
    (["update.kl_target=0.1", "algorithm=ppo"], r"FILE: update: kl_target \(0\.1\) .* set kl_target to null, or algo"),
    (["algorithm=ppo", "update.loss=a:b"], r"FILE: update: loss is a:b, but algorithm ppo has its own: set update\.l"),
    (["algorithm=ppo", "update.advantages=a:b"], r"FILE: update: advantages is a:b, but algorithm ppo has its own"),
    (["update.loss=a:b", "influence.selection=top", "influence.similarity=local"],
     r"FILE: influence: similarity is local, .* the loss a:b .*: set influence\.similarity to dot"),
    (["influence.precondition=adam"], r"no param 'influence\.precondition'"),
    (["seed=1", "update.betta=1"], r"no param 'update\.betta'; did you mean 'update\.beta'\?"),
    (["seed=1", "nothing"], "-S nothing: not of the form key=value"),
    (["seed=1", "update.beta=[1"], r"-S update\.beta:"),
    (["seed=1", "rounds=0"], r"FILE: rounds\.last: .* greater than or equal to 1, not 0"),
    (["seed=1", "=1"], "no param ''"),
    (["seed=1", "rounds=two"], r"FILE: rounds: 'two' is no section; set its params: rounds\.last, rounds\.start$"),
    (["seed=1", "update=1"], r"FILE: update: 1 is no section; set its params: update\.group_size, update\.\w+, "),
    (["seed=1", "seed.more=0"], r"no param 'seed\.more'"), (["seed=1", "search.samples="], r"search\.samples: "),
])  # fmt: skip
def test_a_wrong_assignment_is_named_and_leaves_the_file_unchanged(
    file: Path, assignments: list[str], message: str
) -> None:
    with pytest.raises(GraftError, match=message.replace("FILE", rf"^{re.escape(str(file))}:\d+")) as error:
        override(file, assignments)
    assert "\n" not in str(error.value)
    assert file.read_text() == TEXT


def test_all_lines_with_a_wrong_value_are_named(file: Path) -> None:
    lines = TEXT.splitlines(keepends=True)
    wrong = [n for n, line in enumerate(lines) if re.match(r"  (train|rank|beta|group_size): ", line)]
    for n in wrong:
        lines[n] = f"{lines[n].partition(':')[0]}: ???\n"
    file.write_text("".join(lines))
    first, *others = [n + 1 for n in wrong]
    listed = ", ".join(map(str, others))
    with pytest.raises(GraftError, match=rf":{first}: problems\.train: .*; see also line {listed}$"):
        load_params(file)


def test_a_file_without_params_is_an_error(file: Path) -> None:
    for text in ("", "# nothing\n", "- a\n- b\n", "text\n"):
        file.write_text(text)
        with pytest.raises(GraftError, match="holds nothing; restore the file"):
            load_params(file)
    file.unlink()
    with pytest.raises(GraftError, match=r"params\.yaml: no such file"):
        load_params(file)


def test_writing_params_as_they_are_changes_no_byte(file: Path) -> None:
    values = LEAVES | {"rounds": load_params(SHIPPED).rounds.last}
    assert override(file, [f"{key}={'null' if value is None else value}" for key, value in values.items()]) == {}
    assert file.read_text() == TEXT


@settings(max_examples=8)
@given(seed=st.integers(0, 2**40), beta=st.floats(0, 10), rounds=st.integers(1, 12))
def test_what_is_written_is_read_back_and_every_comment_stays(
    tmp_path_factory: pytest.TempPathFactory, seed: int, beta: float, rounds: int
) -> None:
    file = tmp_path_factory.mktemp("params") / "params.yaml"
    file.write_text(TEXT)
    override(file, [f"seed={seed}", f"update.beta={beta!r}", f"rounds={rounds}"])
    params = load_params(file)
    assert load_path(str(file), localfs)["update"]["beta"] == beta  # what DVC reads
    assert (params.seed, params.update.beta, params.rounds.last) == (seed, beta, rounds)
    assert params.rounds.start == {n: n - 1 for n in range(1, rounds + 1)}
    assert re.findall("#.*", file.read_text()) == re.findall("#.*", TEXT)
    override(file, [f"{key}={LEAVES[key]}" for key in ("seed", "update.beta")] + [f"rounds={LEAVES['rounds'].last}"])
    assert load_params(file) == load_params(SHIPPED)


def test_lists_and_mappings_stay_on_one_line(file: Path) -> None:
    """On several lines, setting them back would remove the comments and blank lines around them."""
    there = ['rewards.own=[{name: polite, term: "manners:polite", weight: 0.5}]', "evaluation.ks=[1, 2]"]
    changes = override(file, there)
    assert len(file.read_text().splitlines()) == len(TEXT.splitlines())
    assert changes["rewards.own"] == ([], [{"name": "polite", "term": "manners:polite", "weight": 0.5}])
    assert load_path(str(file), localfs)["rewards"]["own"] == changes["rewards.own"][1]  # what DVC reads
    override(file, ["rewards.own=[]", "evaluation.ks=[1, 5, 10]"])
    assert re.sub(" +", " ", file.read_text()) == re.sub(" +", " ", TEXT)


def test_rounds_are_keyed_by_text_because_dvc_overlooks_numbers(file: Path) -> None:
    override(file, ["rounds=2"])
    assert load_path(str(file), localfs)["rounds"] == {"last": 2, "start": {"1": 0, "2": 1}}


@pytest.mark.parametrize("assignment", ["rounds=2", "environment.strict=true"])
def test_a_section_that_is_missing_is_named(file: Path, assignment: str) -> None:
    section = assignment.partition("=")[0].split(".")[0]
    file.write_text(re.sub(rf"^{section}:.*\n(?: .*\n)*", "", file.read_text(), flags=re.MULTILINE))
    with pytest.raises(GraftError, match=f"no param '{section}"):
        override(file, [assignment])


def test_writing_null_does_not_change_how_dvc_writes_it(file: Path) -> None:
    """ruamel keeps representers by class, and DVC writes its lock in the same process."""
    from ruamel.yaml import YAML

    override(file, ["seed=7"])
    assert "quantize: null" in file.read_text()
    stream = io.StringIO()
    YAML().dump({"a": None}, stream)
    assert stream.getvalue() == "a:\n"


@given(st.sets(st.sampled_from(sorted(LEAVES))))
def test_a_restricted_stage_reads_its_params_and_no_others(keys: set[str]) -> None:
    params = load_params(SHIPPED)
    seen = restrict(params, keys)
    for key in LEAVES:
        if key in keys:
            assert read(seen, key) == read(params, key)
        else:
            with pytest.raises(AttributeError):
                read(seen, key)


def read(params: Params, key: str) -> Any:
    value: Any = params
    for part in key.split("."):
        value = getattr(value, part)
    return value


def test_a_section_includes_its_params_and_an_unknown_key_is_an_error() -> None:
    assert restrict(load_params(SHIPPED), ["policy", "policy.base"]).policy == load_params(SHIPPED).policy
    for key in ("grop", "update.betta"):
        with pytest.raises(GraftError, match=rf"dvc\.yaml: no param '{leaf_of(key)}'"):
            restrict(load_params(SHIPPED), [key])


def test_a_param_of_the_environment_joins_its_name(file: Path) -> None:
    override(file, ["environment.strict=true", "environment.name=answer"])
    assert load_params(file).environment.params == {"strict": True}
    assert "environment: {name: answer, strict: true} " in file.read_text()
    override(file, ["environment=workflow"])
    assert load_params(file).environment.name == "workflow"
    assert load_params(file).environment.params == {}
