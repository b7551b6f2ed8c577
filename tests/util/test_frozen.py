"""Frozen classes of values: each does what the standard library's dataclass of the same definition does."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from collections.abc import Callable, Iterator
from dataclasses import field
from typing import Any, ClassVar

import pytest

from txlog.util import frozen

Decorator = Callable[..., Callable[[type], type]]


def point(decorate: Decorator) -> type:
    @decorate(frozen=True, slots=True)
    class Point:
        """A point."""

        KIND: ClassVar[str] = "plane"
        x: int
        y: float = 1.5
        names: list[str] = field(default_factory=list)
        note: str = field(default="-", compare=False, repr=False)
        labels: dict[str, int] = field(default_factory=dict, hash=False)

        @property
        def doubled(self) -> int:
            return 2 * self.x

    return Point


def checked(decorate: Decorator) -> type:
    @decorate(frozen=True, slots=True)
    class Checked:
        """With a field that is worked out, and a rule."""

        low: int
        high: int = 9
        both: tuple[int, int] = field(init=False, repr=False, compare=False)
        fixed: int = field(init=False, default=4)

        def __post_init__(self) -> None:
            if self.low > self.high:
                raise ValueError("low is above high")
            object.__setattr__(self, "both", (self.low, self.high))

    return Checked


def derived(decorate: Decorator) -> type:
    @decorate(frozen=True, slots=True)
    class Base:
        """Has one field."""

        a: int

    @decorate(frozen=True, slots=True, repr=False)
    class Derived(Base):
        """Has one more, and spells itself and compares as it likes."""

        b: int = 2

        def __repr__(self) -> str:
            return f"<{self.a} {self.b}>"

        def __eq__(self, other: object) -> bool:
            return type(other) is type(self) and self.a % 10 == other.a % 10  # type: ignore[attr-defined]

        def __hash__(self) -> int:
            return self.a % 10

    return Derived


def empty(decorate: Decorator) -> type:
    @decorate(frozen=True, slots=True)
    class Empty:
        """Has no field."""

    return Empty


def single(decorate: Decorator) -> type:
    @decorate(frozen=True, slots=True)
    class Single:
        """Has one field."""

        only: Any

    return Single


NAN = float("nan")
CALLS: list[tuple[Callable[[Decorator], type], tuple[Any, ...], dict[str, Any]]] = [
    (point, (1,), {}),
    (point, (1, 2.5, ["a"]), {"note": "other"}),
    (point, (), {"x": 1, "note": "third"}),
    (point, (), {}),
    (point, (1, 2, [], "n", {}, "too many"), {}),
    (point, (1,), {"unknown": 2}),
    (checked, (1,), {}),
    (checked, (3, 2), {}),
    (checked, (1,), {"both": (1, 2)}),
    (derived, (1,), {}),
    (derived, (11, 5), {}),
    (empty, (), {}),
    (single, (NAN,), {}),
    (single, ((1, 2),), {}),
    (single, ([],), {}),
]


def seen(of: Callable[[], object]) -> object:
    """A value, or the error that came in its place."""
    try:
        return of()
    except Exception as error:
        return type(error), str(error)


def facts(make: Callable[[Decorator], type], decorate: Decorator) -> Iterator[object]:
    made = make(decorate)
    names = [each.name for each in dataclasses.fields(made)]
    yield made.__match_args__, made.__slots__, names, made.__name__, made.__qualname__, made.__doc__  # type: ignore[attr-defined]
    yield str(inspect.signature(made))
    values = []
    for of, given, named in CALLS:
        if of is make:
            value = seen(lambda given=given, named=named: made(*given, **named))  # type: ignore[misc]
            yield value if isinstance(value, tuple) else repr(value)
            values += [] if isinstance(value, tuple) else [value]
    for value in values:
        yield [getattr(value, name) for name in names]
        yield [value == other for other in (*values, copy.copy(value), copy.deepcopy(value), 1, None)]
        hashed = seen(lambda value=value: hash(value))  # type: ignore[misc]
        yield hashed if isinstance(hashed, tuple) else hashed == hash(copy.copy(value))
        for name in names:
            yield seen(lambda value=value, name=name: setattr(value, name, 1))  # type: ignore[misc]
            yield seen(lambda value=value, name=name: delattr(value, name))  # type: ignore[misc]
        if names and names != ["only"]:
            yield repr(dataclasses.replace(value, **{names[0]: 7}))  # type: ignore[type-var]
        yield repr(dataclasses.asdict(value))  # type: ignore[call-overload]


@pytest.mark.parametrize("make", [point, checked, derived, empty, single], ids=lambda make: make.__name__)
def test_a_frozen_class_with_slots_does_what_the_standard_librarys_does(make: Callable[[Decorator], type]) -> None:
    ours = list(map(repr, facts(make, frozen.dataclass)))
    theirs = list(map(repr, facts(make, dataclasses.dataclass)))
    assert ours == theirs


@frozen.dataclass(frozen=True, slots=True)
class Sent:
    """Goes to another process."""

    name: str
    parts: tuple[int, ...] = ()
    parent: Sent | None = None


def test_values_are_pickled_copied_and_matched() -> None:
    value = Sent("a", (1, 2), Sent("b"))
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        assert pickle.loads(pickle.dumps(value, protocol)) == value
    match value:
        case Sent(name, (_, second)):
            assert (name, second) == ("a", 2)
        case _:
            pytest.fail("not matched")


def test_a_subclass_that_is_no_dataclass_may_have_attributes_of_its_own_and_no_other_fields() -> None:
    class Wider(Sent):
        pass

    wider = Wider("a")
    wider.own = 1  # type: ignore[attr-defined]
    with pytest.raises(dataclasses.FrozenInstanceError):
        wider.name = "b"  # type: ignore[misc]
    assert wider != Sent("a")
