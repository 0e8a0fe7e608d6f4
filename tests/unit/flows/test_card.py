"""The card that `graft doctor` names: its driver and the CUDA of torch, by NVIDIA's published versions."""

import shutil
import subprocess
from pathlib import Path

import pytest

from flows import card
from flows.card import check_card, check_driver, check_products, describe_driver, torch_build
from flows.machine import Finding
from tasks.params.file import load_params

PARAMS = load_params(Path(__file__).parents[3] / "params.yaml")

DRIVERS = [
    # driver, cuDriverGetVersion, CUDA of torch, the remedy's beginning and end where it is too old
    ("580.65.06", 13000, "13.0", None),
    ("580.65.06", 13000, "13.2", None),
    ("550.54.14", 12040, "12.8", None),
    ("525.60.13", 12000, "12.9", None),
    ("575.57.08", 12090, "13.0", ("driver 580 or later", "CUDA 12: pytorch.org/get-started")),
    ("470.256.02", 11040, "13.0", ("driver 580 or later", "CUDA 11: pytorch.org/get-started")),
    ("418.39", 10010, "12.6", ("driver 525 or later", "or later")),
    ("580.65.06", 13000, "14.1", ("a newer driver", "CUDA 13: pytorch.org/get-started")),
]


@pytest.mark.parametrize(("driver", "cuda", "built", "remedy"), DRIVERS)
def test_a_driver_runs_the_cuda_of_its_own_major_version(
    driver: str, cuda: int, built: str, remedy: tuple[str, str] | None
) -> None:
    finding = check_driver(f"driver {driver}", cuda, "2.13.0", built)
    if remedy is None:
        assert finding is None
        return
    assert finding is not None
    assert (finding.state, finding.lost) == ("warning", "the card")
    assert finding.result == f"driver {driver} is too old for torch 2.13.0 (CUDA {built})"
    assert f"the CPU is used, which is slower; install {remedy[0]}" in str(finding.remedy)
    assert str(finding.remedy).endswith(remedy[1])


@pytest.mark.parametrize(
    ("line", "name"),
    [
        (
            "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.14  Thu Feb 22 01:44:30 UTC 2024",
            "driver 550.54.14 ",
        ),
        ("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build", "driver 580.65.06 "),
        (None, "driver "),
    ],
)
def test_the_driver_is_named_by_its_kernel_module(line: str | None, name: str, tmp_path: Path) -> None:
    if line:
        (tmp_path / "version").write_text(f"{line}\nGCC version:  gcc version 12.2.0 (Debian 12.2.0-14)\n")
    assert describe_driver(12040, tmp_path / "version") == f"{name}(CUDA 12.4)"


SOURCE = """
int cuDriverGetVersion(int *version) { *version = VERSION; return 0; }
int cuInit(unsigned flags) { return ERROR; }
int cuGetErrorString(int error, const char **text) { *text = "a version mismatch"; return 0; }
"""


def driver_library(folder: Path, version: int, error: int) -> str:
    """A library with the functions of a driver that are asked, compiled."""
    compiler = shutil.which("cc") or pytest.skip("no C compiler here")
    (folder / "driver.c").write_text(SOURCE)
    options = ["-shared", "-fPIC", f"-DVERSION={version}", f"-DERROR={error}", "-o", "driver.so", "driver.c"]
    subprocess.run([compiler, *options], cwd=folder, check=True)
    return str(folder / "driver.so")


@pytest.mark.parametrize(
    ("cuda", "version", "error", "told"),
    [
        ("13.0", 12040, 0, "(CUDA 12.4) is too old for torch 2.13.0 (CUDA 13.0)"),
        (None, 13000, 0, "(CUDA 13.0), but torch 2.13.0 is for CPUs alone"),
        ("13.0", 13000, 803, "(CUDA 13.0): a version mismatch (803)"),
    ],
)
def test_a_card_that_torch_cannot_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cuda: str | None, version: int, error: int, told: str
) -> None:
    made = {"__version__": "2.13.0", "cuda": cuda, "hip": None}
    monkeypatch.setattr(card, "torch_build", lambda: made)
    finding = check_card(PARAMS, driver_library(tmp_path, version, error))
    assert told in finding.result
    assert (finding.state, finding.lost) == ("warning", "the card")


def test_no_driver_and_no_device(tmp_path: Path) -> None:
    none = Finding("card", "none: the CPU is used")
    assert check_card(PARAMS, str(tmp_path / "none.so")) == none
    assert check_card(PARAMS, driver_library(tmp_path, 13000, 100)) == none


def test_a_card_that_is_not_to_be_used_is_not_examined(tmp_path: Path) -> None:
    on_cpu = PARAMS.model_copy(update={"machine": PARAMS.machine.model_copy(update={"device": "cpu"})})
    assert check_card(on_cpu, driver_library(tmp_path, 13000, 803)).result == "not used: machine.device is cpu"


def test_the_build_of_torch_is_read_without_importing_it() -> None:
    import torch

    expected = (torch.__version__, torch.version.cuda, torch.version.hip)
    assert tuple(torch_build()[name] for name in ("__version__", "cuda", "hip")) == expected


def test_a_torch_that_sees_no_card() -> None:
    import torch

    if torch.cuda.is_available():
        pytest.skip("here is a card")
    finding = check_products(PARAMS, "driver")
    assert finding.result.startswith("driver; torch cannot use it: ")
    assert (finding.state, finding.remedy) == ("warning", card.ON_CPU)


def test_a_card_multiplies() -> None:
    import torch

    if not torch.cuda.is_available():
        pytest.skip("no card here")
    finding = check_card(PARAMS)
    assert finding.state == "ok", finding
    assert torch.cuda.get_device_name(0) in finding.result
