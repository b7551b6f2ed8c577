"""`dataclass`: the standard library's, whose classes that are frozen and have slots are defined in a third of the time.

In: a class, with the options of ``dataclasses.dataclass``. Out: the class that the standard library would make, for
type checkers too. A short process that appends once defines some seventy such classes, and the standard library
compiles six methods for each of them: half of the time that txlog takes to import. Here only ``__init__`` is compiled.
"""

from __future__ import annotations

import dataclasses
import operator
import reprlib
from typing import TYPE_CHECKING, Any

__all__ = ["dataclass"]

if TYPE_CHECKING:
    from collections.abc import Callable
    from dataclasses import dataclass
else:

    def dataclass(cls=None, /, *, frozen=False, slots=False, repr=True, **options):
        """As ``dataclasses.dataclass``. Classes below one that is frozen and has slots are decorated by this too."""
        if cls is not None or options or not (frozen and slots):
            return dataclasses.dataclass(cls, frozen=frozen, slots=slots, repr=repr, **options)
        return lambda plain: _frozen(plain, has_repr=repr)


class _Factory:
    """Stands for an argument that is not given, where the field has a factory."""

    def __repr__(self) -> str:
        return "<factory>"


_FACTORY = _Factory()


def _frozen(plain: type, *, has_repr: bool) -> Any:
    own = vars(plain)
    defines_hash = "__hash__" in own and not (own["__hash__"] is None and "__eq__" in own)
    cls: Any = dataclasses.dataclass(init=False, repr=False, eq=False, slots=True)(plain)
    fields = dataclasses.fields(cls)
    methods = {"__init__": _init(cls, fields), **_guards(cls, frozenset(field.name for field in fields))}
    if has_repr and "__repr__" not in own:
        methods["__repr__"] = _repr([field.name for field in fields if field.repr])
    if "__eq__" not in own:
        methods["__eq__"] = _equality(_values(field.name for field in fields if field.compare))
    if not defines_hash:
        hashed = _values(field.name for field in fields if (field.compare if field.hash is None else field.hash))
        methods["__hash__"] = lambda self: hash(hashed(self))
    for name, method in {"__getstate__": _state, "__setstate__": _set_state, **methods}.items():
        if name not in ("__getstate__", "__setstate__") or name not in own:
            setattr(cls, name, method)
    return cls


def _init(cls: type, fields: tuple[dataclasses.Field[Any], ...]) -> Any:
    scope: dict[str, Any] = {"__name__": cls.__module__, "set_": object.__setattr__, "factory_": _FACTORY}
    parameters, lines = ["self"], []
    for at, field in enumerate(fields):
        value = parameter = field.name
        if field.default is not dataclasses.MISSING:
            scope[f"default_{at}"] = field.default
            parameter, value = f"{field.name}=default_{at}", field.name if field.init else f"default_{at}"
        elif field.default_factory is not dataclasses.MISSING:
            scope[f"make_{at}"] = field.default_factory
            made = f"make_{at}()"
            parameter = f"{field.name}=factory_"
            value = f"{made} if {field.name} is factory_ else {field.name}" if field.init else made
        elif not field.init:
            continue  # `__post_init__` sets it
        if field.init:
            parameters.append(parameter)
        lines.append(f" set_(self, {field.name!r}, {value})")
    if hasattr(cls, "__post_init__"):
        lines.append(" self.__post_init__()")
    exec(f"def __init__({', '.join(parameters)}):\n" + "\n".join(lines or [" pass"]), scope)
    init = scope["__init__"]
    init.__qualname__ = f"{cls.__qualname__}.__init__"
    init.__annotations__ = {field.name: field.type for field in fields if field.init} | {"return": None}
    return init


def _guards(cls: Any, names: frozenset[str]) -> dict[str, Any]:
    """What refuses changes: of every attribute, and in subclasses that are no dataclasses of the fields."""

    def __setattr__(self: Any, name: str, value: object) -> None:
        if type(self) is cls or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
        super(cls, self).__setattr__(name, value)

    def __delattr__(self: Any, name: str) -> None:
        if type(self) is cls or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")
        super(cls, self).__delattr__(name)

    return {"__setattr__": __setattr__, "__delattr__": __delattr__}


def _repr(names: list[str]) -> Callable[[Any], str]:
    def __repr__(self: Any) -> str:
        values = ", ".join([f"{name}={getattr(self, name)!r}" for name in names])
        return f"{self.__class__.__qualname__}({values})"

    return reprlib.recursive_repr()(__repr__)


def _equality(values: Callable[[Any], Any]) -> Callable[[Any, object], bool]:
    def __eq__(self: Any, other: object) -> bool:
        return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented

    return __eq__


def _values(names: Any) -> Callable[[Any], Any]:
    """What returns some attributes of an object as a tuple."""
    listed = tuple(names)
    if len(listed) > 1:
        return operator.attrgetter(*listed)
    return lambda self: tuple([getattr(self, name) for name in listed])


def _state(self: Any) -> list[Any]:
    return [getattr(self, field.name) for field in dataclasses.fields(self)]


def _set_state(self: Any, state: list[Any]) -> None:
    for field, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, field.name, value)
