"""Chess: positions analysed and carried on. `environment: {name: recipes.chess:RookWorld}`."""

from recipes.chess.environment import RookWorld

__all__ = ["RookWorld"]
