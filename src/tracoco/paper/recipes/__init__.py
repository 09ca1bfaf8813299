"""The paper's data sets, from what people download to cases, splits and the paper's plan."""

from tracoco.paper.recipes.recipe import Recipe, apply_recipe
from tracoco.paper.recipes.written_scans import write_scans

__all__ = ["Recipe", "apply_recipe", "write_scans"]
