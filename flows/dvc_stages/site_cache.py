"""DVC's databases of file hashes and links, in a folder of the project that is closed to other users of the machine.

    python -m flows.dvc_stages.site_cache

DVC unpickles what is in them, so a user who can write them runs code as the user who reads them. By default it keeps
them in /var/tmp/dvc, where it lets everyone write. The folder is named in `.dvc/config.local`, for `dvc` on the command
line and its experiments, too. DVC takes a relative path in `.dvc/config` from the current folder, not the project's.
"""

import os
import shutil
from pathlib import Path

from configobj import ConfigObj
from dvc.config import Config

from tasks.artifacts import open_file_itself, read_text
from tasks.errors import GraftError

VARIABLE = "DVC_SITE_CACHE_DIR"

OPEN = 0o022
"""Mode bits with which others may write a folder."""


def set_site_cache(root: Path) -> None:
    """Give the project its folder, unless the user chose another one. Call before DVC opens the project."""
    folder = root.resolve() / ".dvc"
    if os.environ.get(VARIABLE) or not (folder / "config").is_file():
        return
    config = Config(str(folder), validate=False)
    named, place = config["core"].get("site_cache_dir"), site_cache(root)
    if named and Path(named).name != place.name:
        return
    _close(place)
    if named != str(place):  # None, or that of the project that this one is a copy of
        _write_local(folder / "config.local", str(place))


def site_cache(root: Path) -> Path:
    """The folder of the project for the present user."""
    return root.resolve() / ".dvc" / "tmp" / f"graft-site-{os.geteuid()}"


def _write_local(file: Path, place: str) -> None:
    """Set the folder in DVC's local config; DVC's own writer refuses letters beyond ASCII, which its reader takes."""
    lines = read_text(file).splitlines() if file.is_file() else []
    config = ConfigObj(lines, interpolation=False)
    config.setdefault("core", {})["site_cache_dir"] = place
    with open(file, "w", encoding="utf-8", opener=open_file_itself) as stream:  # in place: it may be closed to others
        stream.write("\n".join([*config.write(), ""]))


def _close(place: Path) -> None:
    """Create the folder, or empty it if others could have written it. Raises GraftError if it is another user's."""
    try:
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        state = place.lstat()
        if place.is_symlink() or state.st_uid != os.geteuid():
            raise GraftError(f"{place}: is not this user's folder; remove it, or name another with {VARIABLE}")
        if state.st_mode & OPEN:
            shutil.rmtree(place)
            place.mkdir(mode=0o700)
    except OSError as error:
        raise GraftError(f"{place}: not writable ({error.strerror}); fix its permissions") from error


if __name__ == "__main__":
    set_site_cache(Path.cwd())
