"""A champion's folder, as a promotion leaves it."""

from tasks.artifacts import write_json
from tasks.layout import Layout
from tasks.promotion_records import Champion
from tasks.records import Lineage


def promote(layout: Layout, base: str = "scratch", version: str = "v1") -> None:
    """A champion, as a run leaves one."""
    champion = Champion(version=version, test_sha256="0", environment="workflow")
    lineage = Lineage(version=version, parent=None, base=base, base_sha256=None, round=1, holds=["weights"])
    write_json(layout.champion / "champion.json", champion)
    write_json(layout.champion / "policy" / "lineage.json", lineage)
