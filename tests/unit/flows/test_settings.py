"""No usage is reported, and a single stage imports little."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from flows.process import settings

ROOT = Path(__file__).parents[3]


def test_telemetry_is_off_and_threads_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "environ", {})
    settings.set_environment()
    assert os.environ["DO_NOT_TRACK"] == os.environ["MLFLOW_DISABLE_TELEMETRY"] == "true"
    assert os.environ["PREFECT_SERVER_ANALYTICS_ENABLED"] == "false"
    assert os.environ["DVC_NO_ANALYTICS"] == "1"
    assert (os.environ["OMP_WAIT_POLICY"], os.environ["GOMP_SPINCOUNT"]) == ("PASSIVE", "10000")


def test_a_policy_is_trained_to_the_same_bits_by_one_or_four_threads() -> None:
    """Where products are MKL's, whose sums hang on the number of threads unless this is prevented."""
    import torch

    if not torch.backends.mkl.is_available():
        pytest.skip("torch is built without MKL")
    code = (
        "from flows.process import settings; settings.set_environment()\n"
        "import os, torch\nfrom tasks.bootstrap.scratch_model import build_scratch_model\n"
        "torch.set_num_threads(int(os.environ['OMP_NUM_THREADS']))\n"  # of itself it takes no more than there are cores
        "from tasks.bootstrap.supervised import TrainingExample, train_supervised\n"
        "class Names:\n"
        "    pad_token_id, eos_token_id = 0, 1\n"
        "    def __len__(self): return 300\n"
        "model = build_scratch_model(Names(), 96, 2, seed=0)\n"
        "ids = lambda factor, i, length: [(factor * i + j) % 299 + 1 for j in range(length)]\n"
        "rows = [TrainingExample(ids(7, i, 60), ids(3, i, 9 + i)) for i in range(32)]\n"
        "loss = train_supervised(model, rows, 3, 0.004, 8, 0, 0)[0]\n"
        "print(torch.get_num_threads(), loss, *(float(w.double().sum()) for w in model.parameters()))"
    )
    found = []
    for threads in "14":
        kept = {**os.environ, "OMP_NUM_THREADS": threads}
        ended = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=kept, capture_output=True, text=True)
        assert ended.stdout.startswith(f"{threads} "), ended.stderr
        found.append(ended.stdout.split(maxsplit=1)[1])
    assert found[0] == found[1]


def test_values_that_the_user_set_and_the_folder_of_a_user_with_a_server_are_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    own = {"OMP_WAIT_POLICY": "ACTIVE", "PREFECT_HOME": "/mine"}
    monkeypatch.setattr(os, "environ", dict(own))
    settings.set_environment()
    settings.set_prefect_home(ROOT)
    assert os.environ.items() >= own.items()
    monkeypatch.setattr(os, "environ", {"PREFECT_API_URL": "http://there/api"})
    settings.set_prefect_home(ROOT)
    assert "PREFECT_HOME" not in os.environ


def test_prefect_reads_what_was_set(tmp_path: Path) -> None:
    code = (
        "import sys\nfrom pathlib import Path\nfrom flows.process import settings\n"
        "settings.set_environment(); settings.set_prefect_home(Path(sys.argv[1]))\n"
        "from prefect.settings import get_current_settings as s\nimport json\n"
        "print(json.dumps([str(s().home), s().server.analytics_enabled, s().server.ephemeral.startup_timeout_seconds]))"
    )
    kept = {k: v for k, v in os.environ.items() if not k.startswith("PREFECT_")}
    ended = subprocess.run([sys.executable, "-c", code, tmp_path], cwd=ROOT, env=kept, capture_output=True, text=True)
    assert ended.stderr == ""
    assert json.loads(ended.stdout) == [str(tmp_path / ".graft" / "prefect"), False, 120]


def test_a_stage_alone_imports_neither_dvc_nor_prefect_nor_mlflow() -> None:
    code = (
        "import sys\nfrom pathlib import Path\nfrom flows.stages.run import run\nfrom tasks.errors import GraftError\n"
        "try: run(Path('nowhere'), 'collect@1')\nexcept GraftError: pass\n"
        "import tasks.collect.task, tasks.reward.task, tasks.problems.task\n"
        "print({'dvc', 'prefect', 'mlflow', 'torch'} & {name.partition('.')[0] for name in sys.modules})"
    )
    ended = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert ended.stdout == "set()\n"
