"""What writers that were killed left in `run/`, in `.graft/` and beside `champion/`, and journals of rounds that are
done."""

import shutil
from pathlib import Path

from flows.retention.listing import Going, Part
from tasks.artifacts import leftovers
from tasks.layout import Layout

HIDDEN = ".*." + "[a-z0-9_]" * 8  # how a file or folder is called while it is written
PREFECT = "prefect"  # its own affair


def leftovers_part(layout: Layout, done: set[str], replies: bool) -> Part:
    """`done`: addresses of stages that are up to date. Nobody may be at work. `replies`: those of models, too, which
    cost money, go as well."""
    part = Part("leftovers")
    graft = layout.root / ".graft"
    own = [path for path in graft.glob("*") if path.name != PREFECT]
    found = [path for folder in (layout.root / "run", *own) for path in sorted(folder.rglob(HIDDEN))]
    found += [path for path in sorted(graft.glob(HIDDEN)) if path not in found]
    found += leftovers(layout.champion) if layout.champion.exists() else []
    for journal in sorted((graft / "journal").glob("*")):
        if journal.name in done:
            found.append(journal)
        else:
            part.stays.append(f"{journal.relative_to(layout.root)}: {journal.name} goes on from it")
    if replies and layout.replies.exists():
        found.append(layout.replies)
    elif layout.replies.exists():
        part.stays.append("model replies, a memory that cost money (--replies)")
    found = [path for path in found if not any(other in path.parents for other in found)]
    part.goes = [Going(str(path.relative_to(layout.root)), _size(path)) for path in found]

    def remove() -> None:
        for path in found:
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)

    part.remove = remove
    return part


def _size(path: Path) -> int:
    files = [path] if path.is_file() else [inner for inner in path.rglob("*") if inner.is_file()]
    return sum(file.stat().st_size for file in files)
