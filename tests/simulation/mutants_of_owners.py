"""Bugs around versions that an owner decides, as a catalog does.

In: pytest's ``MonkeyPatch``. Out: the bug, until the patch is undone; `OWNER_MUTANTS` is a part of ``mutants.MUTANTS``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from txlog.core.store._table_store import TableStore
from txlog.core.store._versions import FolderVersions
from txlog.testing.owned_versions import OwnedVersions

__all__ = ["OWNER_MUTANTS"]

Mutant = Callable[[pytest.MonkeyPatch], None]


def asks_the_folder_what_an_owner_decides(patch: pytest.MonkeyPatch) -> None:
    """A file of the log's folder is taken for a version, which only what the owner accepted is."""
    patch.setattr(TableStore, "versions", property(lambda self: FolderVersions(self.log)))


def overlooks_versions_that_are_in_no_folder(patch: pytest.MonkeyPatch) -> None:
    """What was accepted and is not published yet is missing from the tail."""
    patch.setattr(OwnedVersions, "tail", lambda self, after, listed=None: self._published.tail(after, listed))


def publishes_before_its_owner_has_accepted(patch: pytest.MonkeyPatch) -> None:
    """The loser of a race has published its commit as the version that another one became."""
    real = OwnedVersions.put

    def put(self: Any, attempt: Any) -> Any:
        self._published.put(attempt)
        return real(self, attempt)

    patch.setattr(OwnedVersions, "put", put)


def reads_what_is_published_only(patch: pytest.MonkeyPatch) -> None:
    """A version that is in no folder yet is taken for absent."""
    patch.setattr(OwnedVersions, "read", lambda self, version: self._published.read(version))


OWNER_MUTANTS: dict[str, tuple[Mutant, str]] = {
    mutant.__name__: (mutant, scenario)
    for mutant, scenario in (
        (asks_the_folder_what_an_owner_decides, "an-owner-decides-between-appenders"),
        (overlooks_versions_that_are_in_no_folder, "an-owner-and-a-publisher-that-dies"),
        (publishes_before_its_owner_has_accepted, "an-owner-decides-between-appenders"),
        (reads_what_is_published_only, "an-owner-is-asked-what-became-of-it"),
    )
}
