"""Laws of the model reward: it equals what transformers computes for each pair alone, in any batch."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tasks.errors import GraftError
from tasks.params.sections import ModelReward
from tasks.reward.classifier_term import classifier_column, classifier_values, label_index
from tasks.trajectories import RewardedTrajectory
from tests.support.chat_families import MOMENTS, clock_at
from tests.support.groups import with_fields

PAIRS = [
    ("2 and 3?", "return 5"),
    ("2 and 3?", "def solve(problem): return numbers(problem)[0] + numbers(problem)[1]"),
    ("Ann has 12 pens and gives 5 away. How many are left?", "x"),
    ("7?", "7"),
    ("7?", ""),
    ("2 and 3?", "please " * 30),
    ("2 and 3?", "return 5<|endoftext|>"),
]
LETTERS = "abcdefghijklmnopqrstuvwxyzAHS0123456789?()[]_+:.<|>"
WIDE = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}
NO_VALUE = "the model's logits are not finite, or its tokenizer has no token for the text"
Make = Callable[..., RewardedTrajectory]
CHAT = "{% for m in messages %}<{{ m['role'] }}>{{ m['content'] }}{% endfor %}"


def make(folder: Path, kind: str, labels: int = 2, chat: bool = False, **config: Any) -> Path:
    """A random model of two layers with a tokenizer: bert, with a padding token, or qwen2, whose config has none."""
    import torch
    import transformers

    from tasks.bootstrap.tokenizer import train_tokenizer

    torch.set_num_threads(1)
    torch.manual_seed(labels)
    common = {**WIDE, "num_labels": labels, "initializer_range": 0.2, "max_position_embeddings": 256} | config
    if kind == "bert":
        folder.mkdir(parents=True)
        words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *LETTERS, *(f"##{letter}" for letter in LETTERS)]
        (folder / "vocab.txt").write_text("\n".join(words))
        tokenizer: Any = transformers.BertTokenizer(str(folder / "vocab.txt"), do_lower_case=False)
        bert = transformers.BertConfig(vocab_size=len(words), **common)
        judge: Any = transformers.BertForSequenceClassification(bert)
    else:
        tokenizer = train_tokenizer(["def solve(problem): 1 + 2"], 300)
        shape = {"vocab_size": len(tokenizer), "num_key_value_heads": 2, "pad_token_id": None}
        judge = transformers.Qwen2ForSequenceClassification(transformers.Qwen2Config(**shape | common))
    if chat:
        tokenizer.chat_template = CHAT
    judge.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def params(base: Path | str, batch: int = 4, label: int | str | None = 1) -> ModelReward:
    return ModelReward(base=str(base), weight=1.0, batch=batch, label=label)


def alone(folder: Path, label: int, chat: bool = False) -> list[float]:
    """The reference: transformers itself, one pair per pass, without padding."""
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    judge, tokenizer = AutoModelForSequenceClassification.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    values = []
    for question, text in PAIRS:
        written = [[f"<user>{question}<assistant>{text}"]] if chat else [[question], [text]]
        tokens = tokenizer(*written, add_special_tokens=not chat, split_special_tokens=True, return_tensors="pt")
        with torch.no_grad():
            logits = judge(**tokens).logits[0]
        values.append(float(logits.sigmoid()[0] if len(logits) == 1 else logits.softmax(0)[label]))
    return values


@pytest.mark.parametrize(("kind", "config", "labels", "chat"), [
    ("bert", {}, 1, False), ("bert", {}, 3, True), ("qwen2", {}, 3, False), ("qwen2", {"pad_token_id": 1}, 1, True),
])  # fmt: skip
def test_batch_size_and_order_change_no_value(
    tmp_path: Path, kind: str, config: dict[str, int], labels: int, chat: bool
) -> None:
    """A control token within a text is text: else a policy could end its text where it likes."""
    folder = make(tmp_path / "judge", kind, labels, chat, **config)
    label = None if labels == 1 else 2
    expected = alone(folder, 2, chat)
    assert max(expected) - min(expected) > 0.01  # the texts have different values
    for size in (1, 2, 3, len(PAIRS)):
        found = classifier_values(tmp_path, params(folder, size, label), PAIRS)
        assert found == pytest.approx(expected, abs=1e-6)
    if kind == "qwen2":
        assert found[0] != pytest.approx(found[6], abs=1e-6)
    assert classifier_values(tmp_path, params(folder, 4, label), PAIRS[::-1])[::-1] == pytest.approx(expected, abs=1e-6)


def test_a_chat_template_with_a_date_gives_the_same_value_on_any_day(tmp_path: Path) -> None:
    folder = make(tmp_path / "judge", "qwen2", 1, chat=True)
    (folder / "chat_template.jinja").write_text("{{ strftime_now('%d %b %Y') }}" + CHAT)
    found = []
    for moment in MOMENTS:
        with clock_at(moment):
            found.append(classifier_values(tmp_path, params(folder, label=None), PAIRS))
    assert found == [found[0]] * len(found)


def test_text_that_is_too_long_for_the_model_is_cut_at_its_end(tmp_path: Path) -> None:
    folder = make(tmp_path / "judge", "bert", max_position_embeddings=24)
    same, shorter = [("7?", "7" * count) for count in (500, 1000)], ("7?", "7")
    first, second, third = classifier_values(tmp_path, params(folder), [*same, shorter])
    assert first == second != pytest.approx(third, abs=1e-6)
    question = classifier_values(tmp_path, params(folder), [("7" * 500, "x"), ("7" * 400, "x"), ("7" * 500, "y")])
    assert question[0] == question[1] != pytest.approx(question[2], abs=1e-6)  # the text is still there


def named(*names: str) -> Any:
    from transformers import BertConfig

    return BertConfig(id2label=dict(enumerate(names)))


def test_a_label_by_name_or_place() -> None:
    config = named("rude", "polite", "1")
    assert [label_index("judge", config, label) for label in ("rude", "polite", 0, 1, 2, "1")] == [0, 1, 0, 1, 2, 2]
    assert label_index("judge", named("only"), None) == 0


@pytest.mark.parametrize("label", [None, "kind", 2, -1])
def test_an_unknown_label_is_reported_with_the_known_ones(label: int | str | None) -> None:
    message = (
        r"rewards\.model: 'judge' has 2 labels, and label is (null|'kind'|2|-1); .* one of rude \(0\), polite \(1\)$"
    )
    with pytest.raises(GraftError, match=message):
        label_index("judge", named("rude", "polite"), label)
    with pytest.raises(GraftError, match="to one of same"):
        label_index("judge", named("same", "same"), "same")


NO_CLASSIFIER = r"is no sequence-classification model with a tokenizer \("


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        ("nothing", NO_CLASSIFIER),
        ("no layer", rf"{NO_CLASSIFIER}its weights lack model\.layers\.1\."),
        ("no tokenizer", NO_CLASSIFIER),
        ("damaged", NO_CLASSIFIER),
        ("other tokens", r"could not read the completions \(its tokenizer has token \d+, the model a vocabulary of 40"),
    ],
)
def test_a_folder_without_a_classifier_is_reported_in_one_line(tmp_path: Path, kind: str, why: str) -> None:
    from transformers import AutoModelForSequenceClassification

    folder = tmp_path / "judge" if kind == "nothing" else make(tmp_path / "judge", "qwen2")
    if kind == "no layer":
        rewrite(folder, lambda weights: {key: own for key, own in weights.items() if "layers.1" not in key})
    if kind == "no tokenizer":
        for name in ("tokenizer.json", "tokenizer_config.json"):
            (folder / name).unlink()
    if kind == "damaged":
        (folder / "model.safetensors").write_bytes(b"x" * 100)
    if kind == "other tokens":
        judge = AutoModelForSequenceClassification.from_pretrained(folder)
        judge.resize_token_embeddings(40)
        judge.save_pretrained(folder)
    with pytest.raises(GraftError, match=rf"^rewards\.model: '{folder}' {why}.*; name a folder or") as error:
        classifier_values(tmp_path, params(folder), PAIRS)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("kind", "labels", "why"),
    [
        ("bert", 0, r"is no trained classifier: its head \(classifier\.bias, classifier\.weight\) is missing; name a "),
        ("qwen2", 0, r"is no trained classifier: its head \(score\.weight\) is missing; name a model that was trained"),
        ("qwen2", 3, r"has 3 labels in its weights \(score\.weight\), and 2 in its config\.json; correct id2label"),
    ],
)
def test_a_head_that_is_missing_or_of_other_labels_is_named(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], kind: str, labels: int, why: str
) -> None:
    """Nor does the report of transformers, of weights that it would initialise at random, come between."""
    folder = make(tmp_path / "judge", kind)

    def change(weights: dict[str, Any]) -> dict[str, Any]:
        rest = {key: own for key, own in weights.items() if not key.startswith(("score", "classifier"))}
        return rest | ({"score.weight": weights["score.weight"].new_ones(labels, 32)} if labels else {})

    rewrite(folder, change)
    capfd.readouterr()
    with pytest.raises(GraftError, match=rf"^rewards\.model: '{folder}' {why}"):
        classifier_values(tmp_path, params(folder), PAIRS)
    assert capfd.readouterr().err == ""


def rewrite(folder: Path, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    from safetensors.torch import load_file, save_file

    file = folder / "model.safetensors"
    save_file(change(load_file(file)), file, metadata={"format": "pt"})


def test_a_column_has_the_value_of_each_completion(tmp_path: Path, make_trajectory: Make) -> None:
    make(tmp_path / "judge", "bert")
    groups = [
        with_fields(make_trajectory(f"p{place}", [0.0] * len(own)).trajectory, code=own)
        for place, own in enumerate([["return 5", "x", "return 5"], ["x"]])
    ]
    first, second = classifier_column(tmp_path, params("judge", 2), groups)  # by its name in the project
    pairs = [("p0?", "return 5"), ("p0?", "x"), ("p1?", "x")]
    expected = classifier_values(tmp_path, params("judge", 2), pairs)
    found = [[(each.value, each.status) for each in of_one] for of_one in (first, second)]
    assert found == [[(expected[place], "ok") for place in own] for own in ((0, 1, 0), (2,))]


@pytest.mark.parametrize("chat", [False, True])
def test_alone_it_reads_the_completion_without_the_question_and_the_cap_bounds_it(
    tmp_path: Path, make_trajectory: Make, chat: bool
) -> None:
    """As a judge of toxicity reads a continuation, whose prompt may be toxic itself."""
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    folder = make(tmp_path / "judge", "qwen2", chat=chat)
    judge, tokenizer = AutoModelForSequenceClassification.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    texts = ["return 5", "x", "7"]
    expected = []
    for text in texts:
        tokens = tokenizer(f"<assistant>{text}" if chat else text, add_special_tokens=not chat, return_tensors="pt")
        with torch.no_grad():
            logits = judge(**tokens).logits[0]
        expected.append(float(logits.softmax(0)[1]))
    groups = [with_fields(make_trajectory(name, [0.0] * 3).trajectory, code=texts) for name in ("one", "another")]
    alone = params(folder).model_copy(update={"alone": True})
    for column in classifier_column(tmp_path, alone, groups):
        assert [each.value for each in column] == pytest.approx(expected, abs=1e-6)
    cap = sorted(expected)[1]
    (column, _) = classifier_column(tmp_path, alone.model_copy(update={"cap": cap}), groups)
    assert [each.value for each in column] == pytest.approx([min(value, cap) for value in expected], abs=1e-6)


def test_logits_that_are_not_finite_are_a_failure(tmp_path: Path, make_trajectory: Make) -> None:
    import torch
    from transformers import AutoModelForSequenceClassification

    folder = make(tmp_path / "judge", "bert")
    judge = AutoModelForSequenceClassification.from_pretrained(folder)
    torch.nn.init.constant_(judge.classifier.bias, torch.nan)
    judge.save_pretrained(folder)
    ((measured,),) = classifier_column(tmp_path, params(folder), [make_trajectory("p", [0.0]).trajectory])
    assert measured == (None, "failed", NO_VALUE)


@pytest.mark.parametrize("batch", [1, 4])
def test_a_text_without_tokens_is_a_failure_of_its_own_alone(tmp_path: Path, make_trajectory: Make, batch: int) -> None:
    folder = make(tmp_path / "judge", "qwen2")
    group = with_fields(make_trajectory("p", [0.0] * 3).trajectory, code=["return 5", "", "x"])
    alone = params(folder, batch).model_copy(update={"alone": True})
    ((first, empty, last),) = classifier_column(tmp_path, alone, [group])
    assert empty == (None, "failed", NO_VALUE)
    assert (first.status, last.status) == ("ok", "ok")
