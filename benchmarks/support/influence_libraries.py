"""Influence by libraries, each made to give the numbers of `loop` in benchmarks/influence_ways.py.

They are an extra of their own (`pip install -e '.[bench]'`):

    captum                 TracInCP, the gradients of all rows from one backward pass
    opacus                 GradSampleModule, then a product with validation's gradient
    dattri                 TracInAttributor as it comes: gradients are projected to 512 dimensions
    dattri, no projection  the same without, which is exact
    dattri-llm             DataSelectionCallback: influence on the batch itself, by hooks of its backward pass
    dattri-llm, held out   the same on other rows, which it takes a second pass over

Each function sets its library up and returns the computation of one turn; all rows are one batch.
"""

import math
from collections.abc import Callable, Sequence
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from benchmarks.influence_ways import PROMPT, losses_of, plain, rows_loss, rows_of, tokens_of, weights_of

if TYPE_CHECKING:
    from tasks.model.sample import Sample
    from tasks.model.scoring.scorer import Scorer

Turn = Callable[[], list[float]]


def by_captum(scorer: "Scorer", samples: "Sequence[Sample]", validation: "Sequence[Sample]") -> Turn:
    """captum's TracInCP, by hooks on the LoRA linears; it sums the gradients of validation's rows (`aggregate`).

    Avoided: its hooks read a gradient only where the input of a linear has one, and fail at the first linears of a
    frozen base unless embeddings are given one.
    """
    import torch
    from captum.influence import TracInCP
    from torch.utils.data import TensorDataset

    scorer.model.enable_input_require_grads()
    rows = [*samples, *validation]
    denominators = [tokens_of(part) for part in (samples, validation) for _ in part]

    class Losses(torch.nn.Module):
        """Numbers of rows [R] → their losses [R]; as no loss function is given, captum takes these."""

        def __init__(self) -> None:
            super().__init__()
            self.model = scorer.model

        def forward(self, numbers: Any) -> Any:
            losses = losses_of(scorer, [rows[i] for i in numbers], 1)
            return losses / losses.new_tensor([denominators[i] for i in numbers])

    model = Losses()
    numbers = torch.arange(len(rows))
    train, judges = numbers[: len(samples)], numbers[len(samples) :]
    tracin = TracInCP(
        model,
        TensorDataset(train, train),  # the second is the label, which nothing asks for
        checkpoints=["as it is"],
        checkpoints_load_func=lambda _model, _checkpoint: 1.0,
        layers=[name.removesuffix(".weight") for name, p in model.named_parameters() if p.requires_grad],
        batch_size=len(samples),
        sample_wise_grads_per_batch=True,
    )
    return lambda: [float(x) for x in tracin.influence((judges, judges), aggregate=True)[0]]


def by_opacus(scorer: "Scorer", samples: "Sequence[Sample]", validation: "Sequence[Sample]") -> Turn:
    """opacus's GradSampleModule; validation is a plain backward pass, its hooks being off.

    Avoided: in eval mode it raises (in train mode this model computes the same, all dropout being 0); it takes a loss
    for a mean and multiplies by the number of rows; and it keeps the gradients of one pass beside those of the next.
    """
    from opacus import GradSampleModule

    wrapped = GradSampleModule(scorer.model.train(), loss_reduction="sum")
    weights = list(weights_of(scorer).values())

    def turn() -> list[float]:
        wrapped.disable_hooks()
        direction = plain(scorer, validation)
        wrapped.enable_hooks()
        losses_of(scorer, samples, tokens_of(samples)).sum().backward()
        found = sum(w.grad_sample.flatten(1) @ d.flatten() for w, d in zip(weights, direction, strict=True))
        wrapped.zero_grad()
        return [float(x) for x in found]

    return turn


def by_dattri(
    scorer: "Scorer", samples: "Sequence[Sample]", validation: "Sequence[Sample]", projected: bool = True
) -> Turn:
    """dattri's TracInAttributor, by torch.func. All of validation is one test sample; were each row one, it would take
    a gradient for each.

    Avoided: without a word it projects gradients to 512 dimensions, `projector_kwargs=None` included, so that the
    projection can only be taken away afterwards.
    """
    import torch
    from dattri.algorithm.tracin import TracInAttributor
    from dattri.task import AttributionTask
    from torch.utils.data import DataLoader, TensorDataset

    from tasks.model.hf_model import unwrap_model

    unwrap_model(scorer.model).set_attn_implementation("eager")
    loss = rows_loss(scorer, samples)

    def loss_of(trained: Any, data: Any) -> Any:
        return loss(trained, *data)

    task = AttributionTask(loss_of, scorer.model, checkpoints=scorer.model.state_dict())
    attributor = TracInAttributor(task, weight_list=torch.ones(1), normalized_grad=False)
    if not projected:
        attributor.projector_kwargs = None
    train = DataLoader(TensorDataset(*rows_of(samples)), batch_size=len(samples))
    judges = DataLoader(TensorDataset(*(part[None] for part in rows_of(validation))), batch_size=1)
    return lambda: [float(x) for x in attributor.attribute(train, judges)[:, 0]]


def by_dattri_llm(
    scorer: "Scorer", samples: "Sequence[Sample]", validation: "Sequence[Sample]", held_out: bool = False
) -> Turn:
    """dattri-llm's DataSelectionCallback on the LoRA linears, which scores within the backward pass of a training step.

    Its threshold is below all scores: what it drops it would have to subtract from the gradients that are there, and
    the other ways only compute influence. It finds the end of a step by the model's own forward and backward hooks, so
    that the loss has to call the model itself.
    """
    from dattri_llm import DataSelectionCallback, HookManager, HookManagerConfig

    from tasks.model.scoring.logprobs import token_logprobs

    def loss_of(model: Any, batch: Any) -> Any:
        ids, scales = batch
        logits = model(input_ids=ids, use_cache=False, logits_to_keep=ids.shape[1] - PROMPT + 1).logits[:, :-1]
        return (token_logprobs(logits, ids[:, PROMPT:], 1.0).sum(1) * scales).sum()

    target = {"target": "val_loader", "val_loader": [rows_of(validation)], "val_loss_fn": loss_of} if held_out else {}
    selection = DataSelectionCallback(scorer.model, selection_kwargs={"threshold": -math.inf}, **target)
    hooks = HookManager(scorer.model, config=HookManagerConfig(linear_io=["lora_[AB]"]), callbacks=[selection])
    batch = rows_of(samples)

    def turn() -> list[float]:
        scorer.model.zero_grad()
        with hooks.collect():
            loss_of(scorer.model, batch).backward()
        return [float(x) for x in selection.last_scores]

    return turn


LIBRARIES: "dict[str, Callable[[Scorer, Sequence[Sample], Sequence[Sample]], Turn]]" = {
    "captum": by_captum,
    "opacus": by_opacus,
    "dattri": by_dattri,
    "dattri, no projection": partial(by_dattri, projected=False),
    "dattri-llm": by_dattri_llm,
    "dattri-llm, held out": partial(by_dattri_llm, held_out=True),
}
SAME_BATCH = "dattri-llm"
"""The library whose validation is the batch itself."""


def package_of(name: str) -> str:
    """The package that one of LIBRARIES is from."""
    return name.split(",")[0]


def is_installed(package: str) -> bool:
    return find_spec(package.replace("-", "_")) is not None


def absence() -> str | None:
    """Missing packages with the command that installs them; None if all are installed."""
    absent = [package for package in dict.fromkeys(map(package_of, LIBRARIES)) if not is_installed(package)]
    return f"{', '.join(absent)}: not installed (pip install -e '.[bench]')" if absent else None
