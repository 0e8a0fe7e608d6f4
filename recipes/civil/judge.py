"""A sequence classifier of transformers as a term of the reward: the process of `rewards.own` keeps what it has loaded.

In a module of the project's folder, named as `kindness:kind` for instance:

    kind = Judge("some/classifier", "kind")
"""

from collections.abc import Sequence

import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from tasks.errors import GraftError
from tasks.records.problems import Problem
from tasks.records.programs import Result


class Judge:
    """The probability of a label, at most `cap`, of a completion alone or of the pair of its question and it.

    `base`: a folder or a Hugging Face id; weights are read from safetensors only, and remote code stays off. Raises
    GraftError if it has no trained head, or no such label.
    """

    def __init__(self, base: str, label: str, cap: float = 1.0, alone: bool = True) -> None:
        self._model, found = AutoModelForSequenceClassification.from_pretrained(
            base,
            dtype=torch.float32,
            use_safetensors=True,
            trust_remote_code=False,  # left out, transformers asks on the terminal
            output_loading_info=True,
            ignore_mismatched_sizes=True,
        )
        others = {key for key, *_ in found["mismatched_keys"]}
        if lacking := sorted({*found["missing_keys"], *others}):  # transformers initialises them at random
            raise GraftError(
                f"{base}: no trained classifier: its weights lack {lacking[0]}, or have it in another size than "
                "config.json; name a model that was trained to classify sequences"
            )
        labels = self._model.config.label2id
        if label not in labels:
            raise GraftError(f"{base}: no label {label!r}; name one of {', '.join(labels)}")
        self._model.eval()
        self._tokenizer = AutoTokenizer.from_pretrained(base, trust_remote_code=False)
        self._label, self._cap, self._alone = labels[label], cap, alone

    def __call__(self, problem: Problem, text: str, results: Sequence[Result]) -> float:  # noqa: ARG002
        """Softmax of the logits at the label; the sigmoid where there is only one."""
        texts = [text] if self._alone else [problem.question, text]
        # a control token in a text is text: else a policy could end its text where it likes
        tokens = self._tokenizer(*texts, split_special_tokens=True, truncation=True, return_tensors="pt")
        with torch.inference_mode():
            logits = self._model(**tokens).logits[0].double()
        share = logits.sigmoid()[0] if len(logits) == 1 else logits.softmax(0)[self._label]
        return min(float(share), self._cap)
