"""DVC's errors as one line that names the cause and the remedy."""

import errno
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dvc.exceptions import DvcException
from dvc.lock import LockError

from flows.process.exit_codes import line_and_code
from tasks.errors import GraftError, TransientError, one_line


@contextmanager
def translate_dvc_errors() -> Iterator[None]:
    """Raise errors of DVC, of its database and of a full disk as GraftError, or TransientError if DVC is locked."""
    try:
        yield
    except LockError as error:
        raise TransientError(f"{_text(error)}; another graft or dvc is at work here: wait until it ends") from error
    except DvcException as error:
        raise GraftError(_remedy(error)) from error
    except sqlite3.OperationalError as error:  # DVC's database of file hashes
        if "locked" not in str(error):
            raise
        raise TransientError(f"dvc: its {error}; another dvc is at work: wait until it ends") from error
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise GraftError(line_and_code(error)[0]) from error
        raise


def _remedy(error: DvcException) -> str:
    from dvc.exceptions import CacheLinkError, NotDvcRepoError
    from dvc.output import OutputDoesNotExistError
    from dvc.scm import SCMError

    text = _text(error)
    if Path(str(getattr(error, "path", ""))).name == "dvc.lock":
        return f"dvc.lock: damaged ({text}); git checkout dvc.lock, or remove it: what is in the cache is not lost"
    if isinstance(error, CacheLinkError):  # DVC copies out of the cache, which fails only on a full disk
        return f"{Path.cwd()}: the disk is full; free some space and run again, nothing was lost"
    if isinstance(error, OutputDoesNotExistError):
        return f"{text}: the stage ended without writing it; this is a fault of the stage, run it with --debug"
    if isinstance(error, NotDvcRepoError):
        return f"no .dvc folder here; restore it from git, or make one with: {init_command(Path.cwd())}"
    if isinstance(error, SCMError) and "outside of git repository" in text:
        place = next((name for name in ("run", "champion") if Path(name).is_symlink()), "an output")
        return (
            f"{place}: a link to another place, which DVC refuses; put the DVC cache there instead: dvc cache dir PATH"
        )
    if isinstance(error, SCMError):
        return f"{text}; DVC needs a git repository, make one with: git init"
    return f"dvc: {text}; see dvc status and graft doctor"


def init_command(root: Path) -> str:
    """The command that makes a DVC project of a folder; the folder may be a part of a git repository."""
    return "dvc init" if (root / ".git").exists() else "dvc init --subdir"


def _text(error: BaseException) -> str:
    return one_line(" ".join(str(error).split())).rstrip(".")
