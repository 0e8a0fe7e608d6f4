"""What every process of Graft sets before it imports anything heavy. A variable that the user has set stays."""

import os
import sys
import warnings
from pathlib import Path

from tasks.redaction import redact_logs

QUIET = {
    "DO_NOT_TRACK": "true",  # "1" would not stop MLflow
    "DVC_NO_ANALYTICS": "1",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
}
"""Nothing is reported to anybody."""

STEADY = {
    "OMP_WAIT_POLICY": "PASSIVE",  # waiting OpenMP threads that spin make a step 20 × slower on a busy machine
    "MKL_CBWR": "AUTO,STRICT",  # matrix products give the same bits with any number of threads, and cost no more
    "TOKENIZERS_PARALLELISM": "false",
    "CUBLAS_WORKSPACE_CONFIG": ":4096:8",  # CUDA's matrix products give the same bits each time
    "TRANSFORMERS_VERBOSITY": "error",
}
"""What the stages compute with, the same in `graft` and in `dvc repro`."""

PREFECT = {
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "120",  # the default of 20 is too little for a busy machine
    "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL": "CRITICAL",  # Graft tells what went wrong; Prefect's own log keeps all
    "PREFECT_LOGGING_INTERNAL_LEVEL": "CRITICAL",
    "PREFECT_CLIENT_MAX_RETRIES": "3",  # 14 seconds; the default of 5 makes each of several calls wait for a minute
    "PREFECT_API_REQUEST_TIMEOUT": "30",  # seconds for an answer, instead of 60
}


def settle() -> None:
    """Telemetry off, steady arithmetic, no secret in a log. Before torch, mlflow, dvc or prefect is imported."""
    redact_logs()
    _default(QUIET | STEADY)
    if not sys.stderr.isatty():
        _default({"HF_HUB_DISABLE_PROGRESS_BARS": "1"})  # transformers draws them whoever reads
    # peft asks each model for an attribute that transformers warns of; a policy writes `2in` and the like.
    warnings.filterwarnings("ignore", "`is_gradient_checkpointing` is deprecated", FutureWarning)
    warnings.filterwarnings("ignore", category=SyntaxWarning)


def settle_prefect(root: Path) -> None:
    """Prefect's folder inside the project, unless the user chose a folder or a server. Before prefect is imported."""
    _default(PREFECT)
    if not {"PREFECT_HOME", "PREFECT_API_URL"} & os.environ.keys():
        (root / ".graft").mkdir(exist_ok=True)  # Prefect makes its folder, but not the one around it
        os.environ["PREFECT_HOME"] = str(prefect_home(root))


def prefect_home(root: Path) -> Path:
    """Prefect's folder of a project, with its database."""
    return root / ".graft" / "prefect"


def _default(values: dict[str, str]) -> None:
    for name, value in values.items():
        os.environ.setdefault(name, value)
