"""Serve a policy by vLLM while a stage samples it: the server, its checks, and the policy's adapter on it.

An adapter has a name that carries its version, `graft-VERSION`, and is loaded from its own path: vLLM keeps cached
states of a name and a path, so that one loaded in place of another would be sampled with states of the other.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import partial
from http.client import UNAUTHORIZED
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated

from pydantic import BaseModel, Field, ValidationError

from tasks.artifacts import digest_path, read_json
from tasks.environments.prompts import read_format
from tasks.errors import GraftError
from tasks.layout import Layout
from tasks.model.checkpoints.base_model import load_tokenizer
from tasks.model.checkpoints.foreign_files import is_trusted
from tasks.model.checkpoints.gguf import resolve_base
from tasks.model.checkpoints.load_errors import translate_errors
from tasks.model.checkpoints.version import ADAPTER, WEIGHTS, verify_policy
from tasks.model.policy import Policy, ServedModel, load_policy
from tasks.model.sampling.vllm.json_client import KEY, JsonClient, Refusal
from tasks.model.sampling.vllm.server import awake_server, server_command, server_params, started_server
from tasks.params.fields import VllmDtype
from tasks.records.policy import Lineage
from tasks.records.search import Engine


class _Card(BaseModel):
    """A model in the server's list: a base, or an adapter of its `parent`."""

    id: str
    root: str | None = None
    parent: str | None = None
    max_model_len: Annotated[int, Field(ge=1)] | None = None


class _Cards(BaseModel):
    data: list[_Card]


class _AdapterConfig(BaseModel):
    r: Annotated[int, Field(ge=1)]


@contextmanager
def serve_policy(layout: Layout, dtype: VllmDtype | None, folder: Path, stage_id: str) -> Iterator[ServedModel | None]:
    """The policy in `folder` on the server of `machine.vllm`, during the block; None where Graft samples itself.

    `dtype`: the param `vllm`, in which the server computes. A server that Graft starts ends with the block, or sleeps
    until the run ends (run_server.py). Raises GraftError where the policy is damaged, or the server has
    another base or cannot load the adapter.
    """
    if dtype is None:
        yield None
        return
    params = server_params()
    lineage = verify_policy(folder)
    base, trusted = base_to_serve(folder, lineage)
    adapter = folder.resolve() / ADAPTER if "adapter" in lineage.holds else None
    rank = read_json(adapter / "adapter_config.json", _AdapterConfig).r if adapter else None
    log = layout.engine_log(stage_id)
    server: AbstractContextManager[str] = nullcontext(params.address or "")
    if params.command:
        arguments = (params.command, dtype, base, rank, trusted)
        server = awake_server(server_command(*arguments, port=0), partial(started_server, *arguments, log))
    with server as address:
        client = JsonClient(address)
        card = _base_card(client, base)
        name = f"graft-{lineage.version}" if adapter else card.id
        loaded = adapter is not None and _load_adapter(client, name, adapter)
        engine = Engine(name="vllm", version=_version(client), dtype=dtype)
        try:
            yield ServedModel(address, name, engine, card.max_model_len or 0)
        finally:
            if loaded:
                with suppress(GraftError):
                    client.ask("/unload_lora_adapter", {"lora_name": name})


def base_to_serve(folder: Path, lineage: Lineage) -> tuple[str, bool]:
    """What a server loads for a policy folder, below its adapter: a folder, or a Hugging Face id; and whether its own
    code may run."""
    has_weights = "weights" in lineage.holds
    base = str(folder) if has_weights else resolve_base(lineage.base)
    base = str(Path(base).resolve()) if Path(base).is_dir() else base
    return base, is_trusted(lineage.base, base if has_weights else None)


def _version(client: JsonClient) -> str:
    answer = client.ask("//version")
    version = answer.get("version") if isinstance(answer, dict) else None
    return version if isinstance(version, str) else "unknown"


def _base_card(client: JsonClient, base: str) -> _Card:
    """The base in the server's list. Raises GraftError where there is none, or no length of its context."""
    try:
        cards = _Cards.model_validate(client.ask("/models")).data
    except (ValidationError, Refusal) as error:
        if isinstance(error, Refusal) and error.status == UNAUTHORIZED:
            raise GraftError(f"{error}; export {KEY} with the key of that server") from error
        raise GraftError(
            f"sampler: {client.address} gives no list of models; name a server of vLLM, its address ends in /v1"
        ) from None
    bases = [card for card in cards if card.parent is None and card.root]
    card = next((card for card in bases if _is_same(card.root or "", base)), None)
    if card is None:
        served = ", ".join(str(card.root) for card in bases) or "nothing"
        raise GraftError(f"sampler: {client.address} serves {served}, but the policy's base is {base}; serve that one")
    if card.max_model_len is None:
        raise GraftError(f"sampler: {client.address} does not report its max_model_len; name a server of vLLM")
    return card


def _is_same(root: str, base: str) -> bool:
    """The same name, or folders with the same weights."""
    if root == base:
        return True
    files = [Path(name) / WEIGHTS for name in (root, base)]
    return all(file.is_file() for file in files) and len({digest_path(file) for file in files}) == 1


def _load_adapter(client: JsonClient, name: str, path: Path) -> bool:
    """Whether it had to be loaded."""
    try:
        client.ask("/load_lora_adapter", {"lora_name": name, "lora_path": str(path)})
    except Refusal as error:
        if error.status == 400 and "already" in str(error):
            return False
        remedy = "start it with --enable-lora, --max-lora-rank and VLLM_ALLOW_RUNTIME_LORA_UPDATING=1"
        raise GraftError(f"{error}; {remedy}, where it can read {path}") from error
    return True


def load_sampled_policy(folder: Path, served: ServedModel | None) -> Policy:
    """The policy in a folder, to be sampled only: without weights where a server has them."""
    if served is None:
        return load_policy(folder)
    from transformers import AutoConfig, GenerationConfig

    lineage = read_json(folder / "lineage.json", Lineage)
    base, trusted = base_to_serve(folder, lineage)
    with translate_errors(f"{folder}: its base {base!r} has no config.json", "restore it"):
        config = AutoConfig.from_pretrained(base, trust_remote_code=trusted)
        try:
            generation = GenerationConfig.from_pretrained(base)
        except OSError:  # none of its own: as transformers makes one with the model
            generation = GenerationConfig.from_model_config(config)
    tokenizer = load_tokenizer(str(folder), lineage.base)
    has_weights, form = "weights" in lineage.holds, read_format(folder)
    model = SimpleNamespace(config=config, generation_config=generation)
    return Policy(model, tokenizer, lineage.version, lineage.base, lineage.base_sha256, has_weights, form, served)
