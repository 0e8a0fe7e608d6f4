"""The fixture `layout`."""

from tests.support.select_layout import layout

__all__ = ["layout"]
