"""Classes found by their names: what a saved explainer may name, and `l2x.load` may build."""

from __future__ import annotations

import inspect
from typing import Any, ClassVar

from l2x.errors import ArtifactError, InputError


class Registered:
    """A base whose concrete subclasses are known by name, each family (direct subclass) apart.

    Also those of other packages, once their module is imported: a view, a sampler or a value of one's own is
    saved and loaded like ours.

    >>> class Shape(Registered): ...
    >>> class Circle(Shape): ...
    >>> Shape.by_name("Circle")
    <class 'l2x._base.registry.Circle'>
    """

    _known: ClassVar[dict[str, type[Any]]]

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if Registered in cls.__bases__:
            cls._known = {}
        elif not inspect.isabstract(cls):
            known = cls._known.get(cls.__name__, cls)
            if known.__module__.startswith("l2x.") and not cls.__module__.startswith("l2x."):
                raise InputError(
                    f"{known.__module__} has a class {cls.__name__} already, and saved explainers find it by "
                    "that name: call yours differently."
                )
            cls._known[cls.__name__] = cls

    @classmethod
    def by_name(cls, name: str) -> type[Any]:
        """The class, or an ArtifactError that says what to do."""
        if name not in cls._known:
            raise ArtifactError(
                f"This explainer has a {cls.__name__.lower()} '{name}', which is not known here: import the "
                f"module that defines it first. Known: {', '.join(sorted(cls._known))}."
            )
        return cls._known[name]
