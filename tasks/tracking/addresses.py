"""Addresses of MLflow's pages on a tracking server."""

from urllib.parse import urlsplit

TRAINING = "?workflowType=machine_learning"
"""Without it MLflow's pages show prompts, and no training run."""


def server_address(uri: str) -> str:
    """The address of a tracking server, without user and password; "" for a database."""
    parts = urlsplit(uri)
    if parts.scheme not in ("http", "https"):
        return ""
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path.rstrip('/')}"


def experiments_address(server: str) -> str:
    """The list of experiments."""
    return f"{server}/#/experiments{TRAINING}"


def experiment_address(server: str, experiment_id: str) -> str:
    """The runs of an experiment."""
    return f"{server}/#/experiments/{experiment_id}/runs{TRAINING}"


def run_address(server: str, experiment_id: str, run_id: str, file: str = "") -> str:
    """A run, or one of its files."""
    place = f"/artifacts/{file}" if file else ""
    return f"{server}/#/experiments/{experiment_id}/runs/{run_id}{place}{TRAINING}"
