"""Hints for users of other Delta libraries: names that txlog lacks, each with what to use instead.

In: an attribute name that `txlog`, one of its classes or its objects lacks, or an argument that a call does not take.
Out: the error to raise, with one line that says what to use instead; docs/from-deltalake.md says more. It is a
``TxlogError`` and also what Python itself would raise: an ``AttributeError``, so that ``hasattr`` works, or a
``TypeError``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, cast

from txlog import errors

Function = TypeVar("Function", bound=Callable[..., Any])
Class = TypeVar("Class", bound=type)

ON_METHODS = {
    "Table.optimize": {"compact": "table.optimize()", "z_order": "table.optimize(zorder_by=columns)"},
}
"""Other libraries' calls on what is a method here, ``table.optimize.compact()``, and what to use instead."""


_OF_BRANCHES = {f"Table.{call}": f'Table.open("LOCATION@BRANCH").{call}()' for call in ("publish", "rebase", "discard")}
"""Calls to which users pass the name of a branch, and what to write."""


class WrongCallError(errors.InvalidInputError, TypeError):
    """The library's ``InvalidInputError``, for a call with the wrong arguments. It is a ``TypeError`` too."""

    kind = "InvalidInputError"


class UnknownNameError(errors.InvalidInputError, AttributeError):
    """The library's ``InvalidInputError``, for an attribute of another library. It is an ``AttributeError`` too."""

    kind = "InvalidInputError"


def no_attribute(owner: object, name: str, table: str | None) -> Exception:
    """The error for an attribute that ``owner`` lacks; ``table`` is its URI, if known."""
    is_class = isinstance(owner, type)
    kinds = ["txlog"]
    if not isinstance(owner, ModuleType):
        kinds = [each.__name__ for each in (owner if isinstance(owner, type) else type(owner)).__mro__]
    kind = kinds[0]
    what = kind if kind == "txlog" or is_class else f"{'an' if kind[0] in 'AEIOU' else 'a'} {kind}"
    use = None if name.startswith("_") else _instead_of(name, owner, kinds)
    if use is not None:
        return UnknownNameError(f"{what} has no {name}: use {use}", table=table)
    has = f"type object {kind!r}" if is_class else f"{kind!r} object"
    return AttributeError(f"{has} has no attribute {name!r}", name=name, obj=owner)


def _instead_of(name: str, owner: object, kinds: Sequence[str]) -> str | None:
    """What to use in place of ``name``, which may also be spelled in camel case (``whenMatchedUpdate``)."""
    from txlog.core.util._names_elsewhere import ELSEWHERE

    hints = {other: use for each in reversed(kinds) for other, use in ELSEWHERE.get(each, {}).items()}
    if name in hints:
        return hints[name]
    folded = _folded(name)
    own = next((f".{each}" for each in dir(owner) if not each.startswith("_") and _folded(each) == folded), None)
    return own or next((hint for each, hint in hints.items() if _folded(each) == folded), None)


class Hinted(type):
    """The metaclass of classes where users try other libraries' names, such as ``Table.is_deltatable(uri)``."""

    if not TYPE_CHECKING:  # a type checker reports a misspelled name

        def __getattr__(cls, name: str) -> NoReturn:
            raise no_attribute(cls, name, None)


def explains_names(owner: Class) -> Class:
    """Decorate a class: for a name that its objects lack, they raise `no_attribute` with the URI of ``_open_table``."""
    owner.__getattr__ = _no_attribute  # type: ignore[attr-defined]  # a type checker still reports a misspelled name
    return owner


def _no_attribute(owner: Any, name: str) -> NoReturn:
    own = getattr(owner, "__dict__", {}) if name != "__dict__" else {}  # which an object of slots lacks
    open_table = own.get("_open_table")  # which classes without a table lack, and objects that fail to begin
    raise no_attribute(owner, name, open_table and open_table.uri)


# --- arguments ------------------------------------------------------------------------------------------------------


def explains_calls(owner: Class) -> Class:
    """Decorate a class: calling it or a public method with wrong arguments raises ``InvalidInputError``."""
    for name, member in list(vars(owner).items()):
        if name.startswith("_") and name != "__init__":
            continue
        if isinstance(member, classmethod | staticmethod):
            setattr(owner, name, type(member)(explains_call(member.__func__)))
        elif isinstance(member, FunctionType):
            setattr(owner, name, explains_call(member))
    return owner


def explains_call(function: Function) -> Function:
    """Decorate one function as `explains_calls` does."""

    @functools.wraps(function)
    def call(*given: Any, **named: Any) -> Any:
        try:
            return function(*given, **named)
        except TypeError as error:
            trace = error.__traceback__
            if trace is None or trace.tb_next is not None:
                raise  # the function had started: the error comes from inside it
            raise _wrong_call(function, given, named, str(error)) from None

    for name, use in ON_METHODS.get(function.__qualname__, {}).items():
        setattr(call, name, _refused(f"{function.__qualname__} is a method and has no {name}: use {use}"))
    return cast(Function, call)


def explains_options(options: type) -> Callable[[Function], Function]:
    """Decorate a function whose ``**options`` are the keys of the ``TypedDict`` ``options``, as `explains_call` does.

    ``help`` and ``inspect.signature`` list the keys.
    """
    import inspect

    def decorated(function: Function) -> Function:
        found = inspect.signature(function)
        own = [each for each in found.parameters.values() if each.kind is not inspect.Parameter.VAR_KEYWORD]
        keys = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
            for name, annotation in options.__annotations__.items()
        ]
        signature = found.replace(parameters=[*own, *keys])

        @functools.wraps(function)
        def call(*given: Any, **named: Any) -> Any:
            try:
                signature.bind(*given, **named)
            except TypeError as error:
                raise _wrong_call(call, (), named, f"{function.__qualname__}(): {error}") from None
            return function(*given, **named)

        call.__signature__ = signature  # type: ignore[attr-defined]
        return cast(Function, call)

    return decorated


def _refused(message: str) -> Callable[..., NoReturn]:
    def refuse(*given: Any, **named: Any) -> NoReturn:
        raise UnknownNameError(message)

    return refuse


def _wrong_call(
    function: Callable[..., Any], given: tuple[Any, ...], named: Mapping[str, Any], python_says: str
) -> WrongCallError:
    import inspect

    from txlog.core.util._names_elsewhere import MADE_BY

    owner, _, method = function.__qualname__.rpartition(".")
    called = owner if method == "__init__" else f"{_heir(owner, given)}.{method}".lstrip(".")
    if method == "__init__" and owner in MADE_BY:
        return WrongCallError(f"Do not call {owner}(): use {MADE_BY[owner]}")
    takes = [name for name in inspect.signature(function).parameters if name not in ("self", "cls")]
    unknown = next((name for name in named if name not in takes), None)
    if unknown is None and called in _OF_BRANCHES and given[1:] and isinstance(given[1], str):
        return WrongCallError(f"{called}() is a call of the branch itself: {_OF_BRANCHES[called]}")
    if unknown is None:
        return WrongCallError(f"{python_says.replace(function.__qualname__, called)}; it takes {', '.join(takes)}")
    return WrongCallError(f"{called}() has no argument {unknown!r}: {_advice(unknown, takes)}")


def _heir(owner: str, given: tuple[Any, ...]) -> str:
    """The class of the object that a method of ``owner`` was called on, which may have inherited it."""
    kind = given[0] if given and isinstance(given[0], type) else type(given[0]) if given else object
    return kind.__name__ if any(each.__name__ == owner for each in kind.__mro__) else owner


def _advice(unknown: str, takes: list[str]) -> str:
    import difflib

    from txlog.core.util._names_elsewhere import INSTEAD, SAME_AS

    folded = {_folded(name): name for name in takes}
    key = _folded(unknown)
    same = [key, *map(_folded, SAME_AS.get(key, "").split())]
    for known in same:
        if known in folded:
            return f"it is called {folded[known]!r} here"
    for known in same:
        if known in INSTEAD:
            return INSTEAD[known]
    close = difflib.get_close_matches(key, folded, n=1)
    return f"did you mean {folded[close[0]]!r}?" if close else f"it takes {', '.join(takes)}"


def _folded(name: str) -> str:
    return name.replace("_", "").lower()
