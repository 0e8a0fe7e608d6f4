"""Law: no other user of the machine can write what DVC unpickles, under `graft` and under `dvc` alike."""

import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from flows.dvc_stages.site_cache import set_site_cache, site_cache
from tasks.errors import GraftError
from tests.support.tiny_project import dvc, graft, public_folder, run

NOBODY = 65534
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


class Runs:
    """Creates a file when it is unpickled."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (str(self.file),)


@pytest.fixture
def shared(done: Path) -> Iterator[Path]:
    """The place of the project's databases in the folder that all users of the machine share."""
    code = "from dvc.repo import Repo; print(Repo('.').site_cache_dir)"
    place = Path(run(done, sys.executable, "-c", code, **BY_DEFAULT).stdout.strip())
    assert place.is_relative_to("/var/tmp/dvc")
    yield place
    shutil.rmtree(place, ignore_errors=True)


def plant(place: Path, folder: Path, ran_as: Path) -> None:
    """As another user: replace the databases in `place` by ones that create `ran_as` when they are read."""
    prepared = folder / "prepared"
    code = f"""
import pickle, sys
from pathlib import Path
from dvc_data.hashfile.cache import Cache
sys.path.insert(0, {str(Path(__file__).parents[2])!r})
from tests.project.test_site_cache import Runs
links = Cache({str(prepared / "links")!r})
with links.transact():
    links._sql("INSERT INTO Cache(key, raw, store_time, access_time, mode, size, value) VALUES (?, 0, 0, 0, 4, 1, ?)",
               (pickle.dumps(Runs(Path({str(ran_as)!r}))), pickle.dumps(1)))
"""
    run(folder, sys.executable, "-c", code)
    for path in [prepared, *prepared.rglob("*")]:
        path.chmod(0o777)
    switch = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    aside = place.with_name(f"{place.name}.aside")
    subprocess.run([*switch, "mv", str(place), str(aside)], check=True)
    subprocess.run([*switch, "cp", "-r", str(prepared), str(place)], check=True)
    subprocess.run([*switch, "chmod", "-R", "777", str(place)], check=True)
    shutil.rmtree(aside)


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("setpriv"), reason="only root can become somebody else")
def test_another_user_runs_no_code(done: Path, shared: Path) -> None:
    """Who replaces the databases that DVC by default unpickles."""
    with public_folder() as folder:
        plant(shared, folder, folder / "ran")
        printed = graft(done, "status", **BY_DEFAULT).stdout
        assert "up to date" in printed
        dvc(done, "checkout", "-q", **BY_DEFAULT)
        dvc(done, "repro", "-q", **BY_DEFAULT)
        dvc(done, "exp", "run", "-q", "--temp", "-S", "seed=3", **BY_DEFAULT)
        assert not (folder / "ran").exists()
        (done / ".dvc" / "config.local").unlink()
        dvc(done, "checkout", "-q", code=None, **BY_DEFAULT)
        assert (folder / "ran").exists(), "the attack itself works"
