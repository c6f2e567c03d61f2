"""Networks for each kind of input, and the recipes that train them.

Importing this package registers the recipes of all views of l2x.
"""

from l2x.learning.networks import _columns, _patches, _sentences, _words  # noqa: F401
from l2x.learning.networks._recipes import Networks, Recipe, Recipes, networks_of, recipes_of, register

__all__ = ["Networks", "Recipe", "Recipes", "networks_of", "recipes_of", "register"]
