"""The points where packages plug in: entry points of the installed packages, by group and name.

In: a group, such as ``txlog.catalogs``, and the name that switches an entry on: a scheme, a property, a command. Out:
what the package offers under that name, imported when it is first asked for. What the packages offer is read once for
the process, when a point is first asked; a table that uses no extension never asks. txlog's own extensions are declared
in pyproject.toml as anyone else's are, and are found by no other way. Packaging User Guide, "Entry points
specification".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Generic, NoReturn, TypeVar, cast

from txlog.errors import TxlogError, UnsupportedFeatureError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

T = TypeVar("T")

PREFIX = "txlog."
"""What the names of all groups begin with."""

_DISTRIBUTION = "txlog-delta"

_Offers = Mapping[str, Mapping[str, tuple["EntryPoint", ...]]]
_offers: _Offers | None = None


class Point(Generic[T]):
    """One place where packages plug in. Thread-safe: two threads may read the same twice.

    Args:
        group: The group of entry points.
        kind: What one entry is, for errors: "a catalog".
    """

    def __init__(self, group: str, kind: str) -> None:
        self.group = group
        self._kind = kind
        self._loaded: dict[str, tuple[EntryPoint, T]] = {}

    def names(self) -> tuple[str, ...]:
        """What the installed packages offer here, sorted. Imports none of it."""
        return tuple(sorted(_installed().get(self.group, {})))

    def get(self, name: str) -> T | None:
        """What a package offers under ``name``; None if no package does.

        Raises UnsupportedFeatureError if two packages offer the name, or if the package that does cannot be imported.
        """
        entries = _installed().get(self.group, {}).get(name, ())
        if not entries:
            return None
        if len(entries) > 1:
            raise self._error(
                name,
                f"{len(entries)} installed packages offer {self._kind} {name!r}: {_listed(entries)}. Uninstall all but"
                " the one that you mean",
            )
        entry = entries[0]
        known = self._loaded.get(name)
        if known is None or known[0] is not entry:
            known = self._loaded[name] = entry, self._import(entry)
        return known[1]

    def load(self, name: str, needed_for: str | None = None) -> T:
        """What a package offers under ``name``.

        The installed packages are read again before the answer is that there is none: in a notebook, people install
        what is missing and go on.

        Args:
            name: The name of the entry.
            needed_for: What cannot be done without it, for the error: "writing to a table with txlog.iceberg".

        Raises UnsupportedFeatureError if no package offers it, and as `get` does.
        """
        found = self.get(name)
        if found is None:
            forget()
            found = self.get(name)
        if found is None:
            self._refuse(name, needed_for)
        return found

    def _refuse(self, name: str, needed_for: str | None) -> NoReturn:
        others = self.names()
        needs = f"{needed_for} needs {self._kind} {name!r}, which" if needed_for else f"{self._kind} {name!r} is what"
        raise self._error(
            name,
            f"{needs} no installed package offers (as an entry point of the group {self.group}). Install the package"
            f" that has it in this environment; there {_are(others)}{_bare_import()}",
        )

    def _import(self, entry: EntryPoint) -> T:
        try:
            return cast(T, entry.load())
        except TxlogError:
            raise
        except Exception as error:  # whatever a package does when it is imported
            raise self._error(
                entry.name,
                f"{self._kind} {entry.name!r} of the package {_package(entry)} cannot be loaded from {entry.value}:"
                f" {type(error).__name__}: {error}. Install what the package needs, or a release of it that fits this"
                " txlog",
            ) from error

    def _error(self, name: str, message: str) -> UnsupportedFeatureError:
        return UnsupportedFeatureError(message, features=(name,))


def forget() -> None:
    """Read what the installed packages offer again when a point is next asked: packages came or went."""
    global _offers
    _offers = None


def _installed() -> _Offers:
    global _offers
    found = _offers
    if found is None:
        found = _offers = _read()
    return found


def _read() -> _Offers:
    import importlib
    from importlib.metadata import entry_points

    importlib.invalidate_caches()  # of folders that were listed before a package was installed
    found: dict[str, dict[str, tuple[EntryPoint, ...]]] = {}
    installed = entry_points()
    for group in installed.groups:
        if group.startswith(PREFIX):
            own = found[group] = {}
            for entry in installed.select(group=group):
                own[entry.name] = (*own.get(entry.name, ()), entry)
    return found


def _package(entry: EntryPoint) -> str:
    return entry.dist.name if entry.dist is not None else entry.value.partition(":")[0]


def _listed(entries: tuple[EntryPoint, ...]) -> str:
    return ", ".join(sorted(f"{_package(entry)} ({entry.value})" for entry in entries))


def _are(names: tuple[str, ...]) -> str:
    return f"are {', '.join(names)}" if names else "is none"


def _bare_import() -> str:
    """Why not even txlog's own extensions are found where its code is on the path without having been installed."""
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        distribution(_DISTRIBUTION)
    except PackageNotFoundError:
        return (
            f". txlog itself is imported here from a folder or an archive, without the metadata of {_DISTRIBUTION}, so"
            " its own extensions are not found either: install it"
        )
    return ""
