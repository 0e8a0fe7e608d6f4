"""Environment variables of every process of Graft, set before heavy imports. A variable that the user set is kept."""

import logging
import os
import sys
import warnings
from importlib.util import find_spec
from io import TextIOWrapper
from pathlib import Path

from tasks.errors import GraftError
from tasks.redaction import redact_logs
from tasks.tracking import footprint

NO_TELEMETRY = {
    "DO_NOT_TRACK": "true",  # "1" would not stop all of them
    "DVC_NO_ANALYTICS": "1",
    **footprint.NO_TELEMETRY,
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
}

DETERMINISM = {
    "OMP_WAIT_POLICY": "PASSIVE",  # waiting OpenMP threads that spin make a step 20 × slower on a busy machine
    "GOMP_SPINCOUNT": "10000",  # they spin briefly first: a sixth faster on an idle machine, no slower on a busy one
    "MKL_CBWR": "AUTO,STRICT",  # matrix products give the same bits with any number of threads, at no cost
    "TOKENIZERS_PARALLELISM": "false",
    "CUBLAS_WORKSPACE_CONFIG": ":4096:8",  # CUDA's matrix products give the same bits each time
    "TRANSFORMERS_VERBOSITY": "error",
}
"""Settings of the libraries that stages compute with, the same in `graft` and in `dvc repro`."""

PREFECT = {
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "120",  # the default of 20 is too short for a busy machine
    "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL": "CRITICAL",  # Graft prints errors itself; Prefect's own log keeps all
    "PREFECT_LOGGING_INTERNAL_LEVEL": "CRITICAL",
    "PREFECT_CLIENT_MAX_RETRIES": "3",  # 14 seconds; with the default of 5 each of several calls waits for a minute
    "PREFECT_API_REQUEST_TIMEOUT": "30",  # seconds, instead of 60
    "PREFECT_SERVER_SERVICES_DB_VACUUM_ENABLED": "events,flow_runs",  # those of more than 90 days ago are deleted
}


def set_environment() -> None:
    """Telemetry off, deterministic arithmetic, no secret in a log. Call before torch, dvc, prefect or a tracker."""
    redact_logs()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # None, if it was closed before
            stream.reconfigure(errors="replace")  # of a terminal that cannot show all characters
    _set_defaults(NO_TELEMETRY | DETERMINISM)
    _reach_loopback_directly()
    if not sys.stderr.isatty():
        _set_defaults({"HF_HUB_DISABLE_PROGRESS_BARS": "1"})  # transformers draws them into files, too
    logging.getLogger("bitsandbytes").setLevel(logging.ERROR)  # it warns of kernels that are not installed
    # peft reads an attribute of each model that transformers warns of; programs of a policy contain `2in` and the like
    warnings.filterwarnings("ignore", "`is_gradient_checkpointing` is deprecated", FutureWarning)
    warnings.filterwarnings("ignore", category=SyntaxWarning)


def set_prefect_home(root: Path) -> None:
    """Put Prefect's folder inside the project, unless the user chose a folder or a server. Call before prefect."""
    _refuse_socks()
    for name in [name for name, value in os.environ.items() if name.startswith("PREFECT_") and not value.strip()]:
        del os.environ[name]  # Prefect would take it for a value
    _set_defaults(PREFECT)
    if not {"PREFECT_HOME", "PREFECT_API_URL"} & os.environ.keys():
        (root / ".graft").mkdir(exist_ok=True)  # Prefect creates its folder, but not the parent
        os.environ["PREFECT_HOME"] = str(prefect_home(root))


def prefect_home(root: Path) -> Path:
    """Prefect's folder of a project, with its database."""
    return root / ".graft" / "prefect"


def _reach_loopback_directly() -> None:
    """Except this machine's loopback from the proxies of the environment, which cannot reach it."""
    if any(name.lower().endswith("_proxy") for name in os.environ):
        hosts = os.environ.get("no_proxy") or os.environ.get("NO_PROXY") or ""
        missing = [host for host in ("127.0.0.1", "localhost") if host not in hosts and hosts.strip() != "*"]
        os.environ["no_proxy"] = os.environ["NO_PROXY"] = ",".join([*([hosts] if hosts else []), *missing])


def _refuse_socks() -> None:
    """Raise GraftError for a SOCKS proxy that Prefect's client, httpx, has no package for."""
    for name, value in os.environ.items():
        is_proxy = name.lower() in ("all_proxy", "http_proxy", "https_proxy")
        if is_proxy and value.lower().startswith("socks") and not find_spec("socksio"):
            raise GraftError(f"{name}: a SOCKS proxy needs a package: pip install socksio, or unset {name}")


def _set_defaults(values: dict[str, str]) -> None:
    for name, value in values.items():
        os.environ.setdefault(name, value)
