"""Console for tables and lines that contain texts of others: names, values and completions of any run."""

from typing import Any

from rich.console import Console
from rich.text import Text

from tasks.core.terminal import visible


class PlainConsole(Console):
    """A Rich console that prints a text as it is: without markup or emoji codes, control characters replaced."""

    def __init__(self, **options: Any) -> None:
        super().__init__(markup=False, emoji=False, **options)

    def render_str(self, text: str, **options: Any) -> Text:
        """Every string goes through here, those in the cells of a table too."""
        return super().render_str(visible(text), **options)
