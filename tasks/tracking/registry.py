"""The registered model in MLflow: a version for the policy of each run, the champion's with the alias `champion`, that
of a policy that waits for approval with the alias `challenger`. `graft champion` has the history of champions."""

from collections.abc import Mapping
from typing import Any


def register(client: Any, experiment: str, name: str, run_id: str | None, model: Mapping[str, Any]) -> str:
    """The number of a policy's version, which is created if there is none.

    It refers to the folder that DVC stores: MLflow gets no copy of the weights, as its own copy of a peft model reloads
    with wrong ones.
    """
    from mlflow import create_external_model
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
    tags = model["tags"]
    card = create_external_model(f"policy-{version}", run_id, tags, model_type="policy", experiment_id=experiment)
    made = client.create_model_version(name, f"models:/{card.model_id}", run_id, tags, model_id=card.model_id)
    return str(made.version)


def follow(client: Any, experiment: str, name: str, champion: str | None, challenger: str | None) -> None:
    """Set the aliases `champion` and `challenger`; the latter is removed if no policy waits."""
    known = client.search_registered_models(f"name = '{name}'")
    aliases = known[0].aliases if known else {}
    for alias, version in (("champion", champion), ("challenger", challenger)):
        if version is not None:
            tags = {"version": version, "path": f"{alias}/policy"}
            number = register(client, experiment, name, None, {"version": version, "tags": tags})
            if aliases.get(alias) != number:
                client.set_registered_model_alias(name, alias, number)
    if challenger is None and "challenger" in aliases:
        client.delete_registered_model_alias(name, "challenger")
