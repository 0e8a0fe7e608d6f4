"""The registered model in MLflow: a version for each policy of a run, with the history of champions in tags.

The registry follows `champion/history.jsonl`: all of it is written each time, so that an MLflow that was away catches
up.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from tasks.tracking.metrics import VALUE_LENGTH


def create_card(
    experiment: str,
    name: str,
    run_id: str | None,
    tags: Mapping[str, str],
    params: Mapping[str, str] | None = None,
) -> str:
    """Create a LoggedModel of a policy; returns its id.

    It refers to the folder that DVC stores: MLflow gets no copy of the weights, as its own copy of a peft model reloads
    with wrong ones.
    """
    from mlflow import create_external_model

    card = create_external_model(name, run_id, dict(tags), dict(params or {}), "policy", experiment)
    return str(card.model_id)


def register(
    client: Any, experiment: str, name: str, run_id: str | None, model: Mapping[str, Any], card: str | None = None
) -> str:
    """The number of a policy's version, which is created if there is none: of the LoggedModel `card`, or a new one."""
    from mlflow.exceptions import MlflowException

    version = model["version"]
    known = client.search_model_versions(f"name = '{name}' and tag.version = '{version}'")
    if known:
        return str(known[0].version)
    try:
        client.create_registered_model(name)
    except MlflowException as error:
        if error.error_code != "RESOURCE_ALREADY_EXISTS":
            raise
    card = card or create_card(experiment, f"policy-{version}", run_id, model["tags"])
    made = client.create_model_version(name, f"models:/{card}", run_id, model["tags"], model_id=card)
    return str(made.version)


def follow(client: Any, experiment: str, name: str, champion: str, history: Sequence[Mapping[str, Any]]) -> None:
    """Set the alias `champion`, and the tags of every registered version from the history."""
    tags = {"version": champion, "path": "champion/policy"}
    number = register(client, experiment, name, None, {"version": champion, "tags": tags})
    tags_of = succession_tags(history)
    for version in client.search_model_versions(f"name = '{name}'"):
        for tag, value in tags_of.get(version.tags.get("version", ""), {}).items():
            if version.tags.get(tag) != value[:VALUE_LENGTH]:
                client.set_model_version_tag(name, version.version, tag, value[:VALUE_LENGTH])
    if client.get_registered_model(name).aliases.get("champion") != number:
        client.set_registered_model_alias(name, "champion", number)


def succession_tags(history: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, str]]:
    """Version → its tags. `gate` is its last change; `champion_since` and `replaced` are of the last time that it
    became champion, `champion_until`, `replaced_by` and `replaced_because` of the last time that it was replaced."""
    tags: dict[str, dict[str, str]] = {}
    for step in history:
        new, old = step["version"], step["replaced"]
        tags.setdefault(new, {}).update(
            {
                "gate": f"{step['how']} at {step['time']}: {step['reason']}",
                "champion_since": step["time"],
                "champion_until": "",
                "replaced": old or "",
                "replaced_by": "",
                "replaced_because": "",
            }
        )
        if old:
            because = f"{new} was {step['how']}: {step['reason']}"
            tags.setdefault(old, {}).update(
                {"champion_until": step["time"], "replaced_by": new, "replaced_because": because}
            )
            if step["how"] == "rolled back":
                tags[old]["gate"] = f"taken back at {step['time']}: {step['reason']}"
    return tags
