"""A diagnosis as one HTML page that needs nothing but itself: no script, no request, all texts escaped."""

from pathlib import Path

from flows.diagnosis.record import Diagnosis, comparison_lines, loss_lines, printable, summary_lines


def page_of(diagnosis: Diagnosis) -> str:
    """The whole page; the same diagnosis gives the same text."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    folder = FileSystemLoader(Path(__file__).parent)
    templates = Environment(
        loader=folder, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    templates.filters |= {"number": _number, "readable": printable}
    layers = diagnosis.step.before.layers.values()
    return templates.get_template("page.html.jinja").render(
        d=diagnosis,
        lines=[printable(line) for line in summary_lines(diagnosis)],
        loss=loss_lines(diagnosis.step),
        comparison=comparison_lines(diagnosis.comparison) if diagnosis.comparison else [],
        most=max(layers, default=0.0) or 1.0,
    )


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"
