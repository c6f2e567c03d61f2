"""The networks of each kind of input, and the recipes by which they are trained.

Importing this package registers the recipes of every view that comes with l2x.
"""

from l2x.learning.networks import _columns, _patches, _sentences, _words
from l2x.learning.networks._recipes import Networks, Recipe, Recipes, networks_of, recipes_of, register

__all__ = [
    "Networks",
    "Recipe",
    "Recipes",
    "_columns",
    "_patches",
    "_sentences",
    "_words",
    "networks_of",
    "recipes_of",
    "register",
]
