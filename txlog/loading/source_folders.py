"""Folders that other programs filled, and whether two folders are the same, whatever leads to them: for commands on two
places.

In: the location of a table or folder. Out: one spelling for it, and its files.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable

from txlog.core.format.paths import DataPath, canonical_path, is_folder_marker, location_of, path_below, uri_of
from txlog.core.store import ObjectMeta, TableFiles, folders_above
from txlog.core.util import check_text
from txlog.errors import InvalidInputError


def root_of(uri: str) -> str:
    """The beginning of the locations of a folder's files, in one spelling: links are followed, and s3a is s3."""
    return canonical_path(uri_of(uri if "://" in uri else os.path.realpath(uri))).rstrip("/")


def place_below(uri: str) -> Callable[[DataPath], str | None]:
    """What says where in the folder ``uri`` a file is, whatever links lead there: its path, or None if it is not."""
    real_root = uri if "://" in uri else os.path.realpath(uri)
    real = functools.cache(os.path.realpath)

    def below(found: DataPath) -> str | None:
        location = location_of(found)
        if "://" in location or "://" in uri:
            return path_below(uri, found)
        folder, _, name = location.rpartition("/")
        return path_below(real_root, DataPath(f"{real(folder)}/{name}"))

    return below


def files_in(
    store: TableFiles, is_left_out: Callable[[str], bool], is_wanted: Callable[[str], bool] = lambda name: True
) -> list[ObjectMeta]:
    """The wanted files of a folder, by name, without empty objects that only mark a folder.

    Raises InvalidInputError for a name that no log can hold, and if a file is in a Delta table's folder, whose log says
    which files and rows it has.
    """
    tables: set[str] = set()

    def is_out(name: str) -> bool:
        check_text("name of a file", name)
        return is_left_out(name)

    def skip(folder: str) -> bool:
        if folder.endswith("/_delta_log"):
            tables.add(folder.removesuffix("_delta_log"))
        return is_out(folder)

    found: list[ObjectMeta] = []
    for page in store.files.list(skip=skip):
        found += [each for each in page if not is_out(each.name) and is_wanted(each.name)]
    found = _without_markers(found)
    for each in found:
        table = next((table for table in tables if each.name.startswith(table)), None)
        if table is not None:
            raise InvalidInputError(
                f"{each.name} is in the folder of the Delta table {table.rstrip('/')}, which may have deleted its rows:"
                " append the rows of the table, or leave its folder out",
                table=store.uri,
                path=each.name,
            )
    return sorted(found, key=lambda each: each.name)


def _without_markers(found: list[ObjectMeta]) -> list[ObjectMeta]:
    """Whatever the name of an empty object is, it marks a folder if other names go on behind it."""
    if all(each.size for each in found):
        return found
    folders = {folder for each in found for folder in folders_above(each.name, "")}
    return [each for each in found if each.size or not (is_folder_marker(each.name, 0) or each.name in folders)]
