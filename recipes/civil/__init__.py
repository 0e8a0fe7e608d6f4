"""Detoxification: prompts continued without being rude. `environment: {name: recipes.civil:Civil}`."""

from recipes.civil.environment import Civil

__all__ = ["Civil"]
