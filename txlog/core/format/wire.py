"""The JSON form of actions: strict readers of JSON fields, and the base class that applies them.

In: a decoded JSON object, or a checkpoint row as a dict. Out: the fields of an immutable action, each of the
declared type and range, or an ``ActionError`` that names the field. The fields of each action: ``actions.py``.
"""

from __future__ import annotations

import json
import operator
import sys
from collections.abc import Callable, Mapping
from typing import Annotated, Any, ClassVar, TypeAlias, TypeVar

import msgspec

INT64_MAX = 2**63 - 1
INT32_MAX = 2**31 - 1


class ActionError(ValueError):
    """A known field of an action has the wrong type or range. The caller adds the file and line."""


def read_text(value: Any) -> str:
    if type(value) is not str:
        raise ActionError(f"must be a string, not {shown(value)}")
    return value


def read_size(value: Any) -> int:
    """A count, size, version or time: orjson silently reads 2**64 as a float, so the type is checked too."""
    if type(value) is not int or not 0 <= value <= INT64_MAX:
        raise ActionError(f"must be an integer from 0 to 2**63-1, not {shown(value)}")
    return value


def size_or_none(value: Any) -> int | None:
    """What `read_size` reads, where a wrong value is no error: a hint, which is then ignored."""
    return value if type(value) is int and 0 <= value <= INT64_MAX else None


def read_long(value: Any) -> int:
    if type(value) is not int or not -INT64_MAX - 1 <= value <= INT64_MAX:
        raise ActionError(f"must be a 64-bit integer, not {shown(value)}")
    return value


def read_int32(value: Any) -> int:
    if type(value) is not int or not 0 <= value <= INT32_MAX:
        raise ActionError(f"must be an integer from 0 to 2**31-1, not {shown(value)}")
    return value


def read_file_size(value: Any) -> int:
    """A file's size. Some writers have it as a float or as text, which Spark's reader of JSON takes too."""
    return read_size(_whole(value))


def read_file_time(value: Any) -> int:
    """A file's time, written as `read_file_size` says."""
    return read_long(_whole(value))


def _whole(value: Any) -> Any:
    if type(value) is float and value.is_integer() and abs(value) <= _WHOLE_FLOAT_MAX:
        return int(value)
    if type(value) is str and value.isascii() and value.removeprefix("-").isdecimal() and len(value) <= 20:
        return int(value)
    return value


_WHOLE_FLOAT_MAX = 2**53


def read_flag(value: Any) -> bool:
    if type(value) is not bool:
        raise ActionError(f"must be true or false, not {shown(value)}")
    return value


def read_text_map(value: Any) -> dict[str, str | None]:
    """A map of strings to strings or nulls. Arrow returns maps as lists of pairs."""
    if type(value) is not dict and not isinstance(value, (Mapping, list)):
        raise ActionError(f"must be a map of strings, not {shown(value)}")
    result: dict[str, str | None] = {}
    for pair in value if isinstance(value, list) else value.items():
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise ActionError(f"must be a map of strings, and has {shown(pair)}")
        key, item = pair
        if type(key) is not str or not (item is None or type(item) is str):
            raise ActionError(f"must be a map of strings, and has {shown(key)}: {shown(item)}")
        result[key] = item
    return result


def read_plain_map(value: Any) -> dict[str, str]:
    """A map of strings, without its nulls."""
    return {key: item for key, item in read_text_map(value).items() if item is not None}


def read_configuration(value: Any) -> dict[str, str]:
    """A table's properties. A number or a boolean is the string that JSON has for it, as in Spark."""
    if isinstance(value, Mapping):
        value = {key: json.dumps(item) if type(item) in _SCALARS else item for key, item in value.items()}
    return read_plain_map(value)


def read_text_list(value: Any) -> tuple[str, ...]:
    if not isinstance(value, (list, tuple)) or any(type(item) is not str for item in value):
        raise ActionError(f"must be a list of strings, not {shown(value)}")
    return tuple(value)


def read_object(value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise ActionError(f"must be an object, not {shown(value)}")
    return dict(value)


def read_format(value: Any) -> dict[str, Any]:
    """``provider`` and ``options``. Either may be absent: a checkpoint has no leaf for an empty one."""
    found = read_object(value)
    for key, read in (("provider", read_text), ("options", read_text_map)):
        if found.get(key) is not None:
            try:
                found[key] = read(found[key])
            except ActionError as error:
                raise ActionError(f".{key} {error}") from None
    return found


def shown(value: Any) -> str:
    """A value as an error message shows it: its repr, cut to 60 characters."""
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


_SCALARS = frozenset((int, float, bool))

Size: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=INT64_MAX)]
Long: TypeAlias = Annotated[int, msgspec.Meta(ge=-INT64_MAX - 1, le=INT64_MAX)]
Int32: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=INT32_MAX)]
FileSize: TypeAlias = Size
FileTime: TypeAlias = Long
TextMap: TypeAlias = dict[str, str | None]
Configuration: TypeAlias = dict[str, str]
Format: TypeAlias = dict[str, Any]
Unknown: TypeAlias = Annotated[dict[str, Any], msgspec.Meta(min_length=1, max_length=0)]
"""Fields that an action has no member for. msgspec takes no value for it, so that only `WireAction.read_fields` sets
it."""

_READERS: dict[str, Callable[[Any], Any]] = {
    "str": read_text,
    "bool": read_flag,
    "FileSize": read_file_size,
    "FileTime": read_file_time,
    "Size": read_size,
    "Long": read_long,
    "Int32": read_int32,
    "TextMap": read_text_map,
    "Configuration": read_configuration,
    "Format": read_format,
    "tuple[str, ...]": read_text_list,
}
"""How the value of a field is read, by the field's declared type. Other types are actions of the same module."""

A = TypeVar("A", bound="WireAction")


class WireAction(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """What all actions share: a JSON key, and fields, which have camel case names in JSON.

    A field without a default is required. One that equals its default is not written. ``extra``, if a class has it,
    is `Unknown`, and named as no JSON key usually is.
    """

    KEY: ClassVar[str] = ""

    @classmethod
    def from_json(cls: type[A], value: Any) -> A:
        """Build from a decoded JSON object (or a checkpoint row as a dict); raises ``ActionError``."""
        try:
            return msgspec.convert(value, cls)
        except msgspec.ValidationError:  # an unusual value, or a wrong one
            return cls.read_fields(value)

    @classmethod
    def read_fields(cls: type[A], value: Any) -> A:
        """`from_json` one field after the other: keeps unknown fields, and says which value is wrong."""
        if type(value) is not dict and not isinstance(value, Mapping):
            raise ActionError(f"{cls.KEY} must be an object, not {shown(value)}")
        wires = _wires(cls)
        known: dict[str, Any] = {}
        for name, key, read, is_required in wires.to_read:
            raw = value.get(key)
            if raw is not None:
                try:
                    known[name] = read(raw)
                except ActionError as error:
                    raise ActionError(f"{cls.KEY}.{key} {error}") from None
            elif is_required:
                raise ActionError(f"{cls.KEY}.{key} is missing")
        if wires.has_extra and not value.keys() <= wires.keys:
            extra = {key: item for key, item in value.items() if key not in wires.keys and item is not None}
            if extra:
                known["extra"] = extra
        return cls(**known)

    def to_json(self) -> dict[str, Any]:
        """The JSON object under ``KEY``; optional fields that are unset are left out."""
        result: dict[str, Any] = {}
        wires = _wires(type(self))
        for (key, default), item in zip(wires.to_write, wires.values_of(self), strict=True):
            if item is not default and item != default:
                result[key] = item if type(item) in _PLAIN else _jsonable(item)
        if wires.has_extra:
            result.update(self.extra)  # type: ignore[attr-defined]
        return result


class _Wires(msgspec.Struct, frozen=True):
    """The fields of one kind of action, laid out for the loops that read and write all of them: a commit of many files
    spends most of its time there."""

    to_read: tuple[tuple[str, str, Callable[[Any], Any], bool], ...]
    """For each field: its name, its key, its reader, and whether it is required."""
    to_write: tuple[tuple[str, Any], ...]
    """For each field: its key, and the value for which it is left out; `_NEVER` for required fields."""
    values_of: Callable[[Any], tuple[Any, ...]]
    keys: frozenset[str]
    has_extra: bool


_NEVER: Any = object()
_wires_of: dict[type, _Wires] = {}


def _wires(cls: type[Any]) -> _Wires:
    found = _wires_of.get(cls)
    if found is None:
        named = [each for each in msgspec.structs.fields(cls) if each.name != "extra"]
        found = _wires_of[cls] = _Wires(
            tuple((each.name, each.encode_name, _reader(cls, each.name), each.required) for each in named),
            tuple((each.encode_name, _NEVER if each.required else each.default) for each in named),
            operator.attrgetter(*(each.name for each in named)),
            frozenset(each.encode_name for each in named),
            len(named) < len(cls.__struct_fields__),
        )
    return found


def _reader(cls: type[WireAction], name: str) -> Callable[[Any], Any]:
    declared = cls.__annotations__[name].removesuffix(" | None")
    read: Callable[[Any], Any] = _READERS.get(declared) or vars(sys.modules[cls.__module__])[declared].from_json
    return read


def wire_keys(cls: type[Any]) -> frozenset[str]:
    """The names that the fields of an action have in JSON."""
    return _wires(cls).keys


_PLAIN = frozenset((str, int, bool, dict))


def _jsonable(item: Any) -> Any:
    if isinstance(item, WireAction):
        return item.to_json()
    return list(item) if isinstance(item, tuple) else item
