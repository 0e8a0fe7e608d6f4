"""Law: no other user of the machine can write what DVC unpickles, under `graft` and under `dvc` alike."""

import os
import shutil
import stat
import sys
from pathlib import Path

import pytest

from flows.dvc_stages.site_cache import set_site_cache, site_cache
from tasks.errors import GraftError
from tests.support.tiny_project import graft, run

BY_DEFAULT = {"DVC_SITE_CACHE_DIR": ""}
"""As in a user's shell; the tests' own keep it out of the machine's."""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / ".dvc").mkdir()
    (tmp_path / ".dvc" / "config").write_text("[core]\n    analytics = false\n")
    return tmp_path


@pytest.fixture(autouse=True)
def by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DVC_SITE_CACHE_DIR", "")


def configured(root: Path) -> str:
    from dvc.config import Config

    return str(Config(str(root / ".dvc")).get("core", {}).get("site_cache_dir", ""))


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_the_folder_is_closed_to_others_whatever_the_umask(project: Path) -> None:
    before = os.umask(0)
    try:
        set_site_cache(project)
    finally:
        os.umask(before)
    assert configured(project) == str(site_cache(project))
    assert mode(site_cache(project)) == 0o700


def test_a_path_beyond_ascii_is_named_and_what_is_in_the_file_stays(tmp_path: Path) -> None:
    project = tmp_path / "zähl % {x}"
    (project / ".dvc").mkdir(parents=True)
    (project / ".dvc" / "config").touch()
    local = project / ".dvc" / "config.local"
    local.write_text("['remote \"s3\"']\n    url = ssh://b\n    password = ü\n", encoding="utf-8")
    local.chmod(0o600)
    set_site_cache(project)
    assert configured(project) == str(site_cache(project))
    assert "password = ü" in local.read_text()
    assert mode(local) == 0o600


def test_a_folder_that_others_could_write_is_emptied(project: Path) -> None:
    """DVC itself makes it so, once `.dvc/tmp` was removed."""
    planted = site_cache(project) / "repo" / "planted"
    planted.parent.mkdir(parents=True)
    planted.touch()
    site_cache(project).chmod(0o777)
    set_site_cache(project)
    assert mode(site_cache(project)) == 0o700
    assert not planted.exists()


def test_a_project_that_was_moved_or_copied_uses_its_own(
    project: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    set_site_cache(project)
    copy = tmp_path_factory.mktemp("copy") / "project"
    shutil.copytree(project, copy)
    set_site_cache(copy)
    assert configured(copy) == str(site_cache(copy))
    assert configured(project) == str(site_cache(project))


@pytest.mark.parametrize("config", ["config", "config.local"])
def test_a_folder_that_the_user_chose_is_kept(project: Path, config: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with (project / ".dvc" / config).open("a") as stream:
        stream.write(("[core]\n" if config == "config.local" else "") + "    site_cache_dir = /srv/site\n")
    set_site_cache(project)
    assert configured(project) == "/srv/site"
    monkeypatch.setenv("DVC_SITE_CACHE_DIR", "/mine")
    set_site_cache(project)
    assert configured(project) == "/srv/site"


def test_a_link_in_its_place_is_refused(project: Path, tmp_path: Path) -> None:
    (project / ".dvc" / "tmp").mkdir()
    (tmp_path / "elsewhere").mkdir()
    site_cache(project).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(GraftError, match="is not this user's folder"):
        set_site_cache(project)


def test_dvc_keeps_its_databases_there(done: Path) -> None:
    """By default they are where all users of the machine may write."""
    graft(done, "status", **BY_DEFAULT)
    code = "from dvc.repo import Repo; print(Repo('.').site_cache_dir)"
    place = Path(run(done, sys.executable, "-c", code, **BY_DEFAULT).stdout.strip())
    assert place.is_relative_to(site_cache(done))
    assert mode(site_cache(done)) == 0o700
    (done / ".dvc" / "config.local").unlink()
    assert run(done, sys.executable, "-c", code, **BY_DEFAULT).stdout.startswith("/var/tmp/dvc/")
