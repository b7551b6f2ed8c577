"""The order of changes that comes with them: the versions of a change data feed, or a column that the table lacks.

In: batches of a changelog. Out: for each row a value that orders the changes of a key. A change data feed has its row
kinds in ``_change_type`` (PROTOCOL.md, "Change Data Files"), and the version of each change in ``_commit_version``. The
rows of one version have no order: of each key, those that go come before those that come. But if the same row goes and
comes, either both happened to one row in this version (a feed of changes as they came), or another row with these
values took the key: then the table's row tells, and a merge column by column takes neither of the two (`net_changes`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from txlog.changelog.retractions import row_numbers
from txlog.changelog.row_kinds import DELETE, UPDATE_BEFORE
from txlog.core.format.arrow.take_rows import taken_rows
from txlog.core.format.change_data import CHANGE_TYPE, COMMIT_TIMESTAMP, COMMIT_VERSION, FEED_FIELDS
from txlog.core.format.schema import fold_name
from txlog.core.wording import argument
from txlog.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

_MAX = 1 << 58
_PLACES = 4
_GOES, _COMES_FIRST, _GOES_AGAIN, _COMES = range(_PLACES)
"""The places of a key's changes in a version."""


def is_feed(row_kind: str | None) -> bool:
    """Whether changes with this column of row kinds are a change data feed."""
    return row_kind is not None and fold_name(row_kind) == CHANGE_TYPE.name


def feed_columns(row_kind: str | None) -> tuple[str, ...]:
    """The columns of changes that tell about the change, beside its row: those of a feed."""
    return tuple(field.name for field in FEED_FIELDS) if is_feed(row_kind) else ()


def orders_feed(row_kind: str | None, sequence_by: str | None, names: Sequence[str]) -> str | None:
    """The column that orders the versions of a feed; None: no feed, or a feed without one.

    Raises ``InvalidInputError`` if ``sequence_by`` names another column although there is one.
    """
    if not is_feed(row_kind):
        return None
    folded = {fold_name(name) for name in names}
    found = next((each.name for each in (COMMIT_VERSION, COMMIT_TIMESTAMP) if each.name in folded), None)
    if sequence_by is None or found is None:
        return found
    if fold_name(sequence_by) in (COMMIT_VERSION.name, COMMIT_TIMESTAMP.name):
        return fold_name(sequence_by)
    raise InvalidInputError(
        f"the changes of a change data feed are ordered by {found}, which they have: leave {argument('sequence_by')}"
        f" out, or drop the column to order them by {sequence_by}"
    )


def feed_order(column: pa.Array, kinds: NDArray[np.int8], name: str, first_row: int) -> pa.Array:
    """The order of each row: by version, and in a version first the rows that go; `in_versions` tells more.

    Raises ``InvalidInputError`` for a null, or a column that is neither a version nor a time.
    """
    kind = column.type
    if not (pa.types.is_integer(kind) or pa.types.is_timestamp(kind)):
        raise InvalidInputError(f"column {name} of a change data feed is a {kind}, but must be a version or a time")
    if column.null_count:
        row = first_row + int(column.is_null().index(True).as_py())
        raise InvalidInputError(
            f"column {name} is null in row {row} (counting from 0): a change of a feed without its version has no order"
        )
    values = column.cast(pa.int64()).to_numpy(zero_copy_only=False)
    if len(values) and (int(values.max()) >= _MAX or int(values.min()) <= -_MAX):
        raise InvalidInputError(f"column {name} has values that no version or time of a table has")
    goes = (kinds == DELETE) | (kinds == UPDATE_BEFORE)
    return pa.array(_PLACES * values + np.where(goes, _GOES, _COMES))


def in_versions(
    rows: pa.Table, kinds: NDArray[np.int8], keys: NDArray[np.int64], order: NDArray[np.int64], compared: Sequence[str]
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """The order of a feed's changes, also within a version: rows that go, then rows that come and go, then rows that
    come. And which changes are of the second kind. ``order`` is `feed_order`, ``compared`` as in `retractions`."""
    goes = (kinds == DELETE) | (kinds == UPDATE_BEFORE)
    at, same = _equal_rows(rows, goes, keys, order, compared)
    both = np.zeros(len(kinds), dtype=bool)
    both[at] = ((np.bincount(same[goes[at]], minlength=len(at)) > 0) & (_num_coming(same, goes[at]) > 0))[same]
    place = np.where(both, np.where(goes, _GOES_AGAIN, _COMES_FIRST), np.where(goes, _GOES, _COMES))
    return _PLACES * (order // _PLACES) + place, both


def net_changes(
    rows: pa.Table,
    kinds: NDArray[np.int8],
    keys: NDArray[np.int64],
    order: NDArray[np.int64],
    compared: Sequence[str],
    cancelling: Sequence[int],
) -> NDArray[np.bool_]:
    """Which of a feed's changes are left if, in each version, a row that goes and an equal one that comes cancel out.

    A key has one row before a version and one after it, or none: both are the same if each row that goes comes too,
    whatever happened in between. So an overwrite that keeps a row changes nothing, and neither does a row that comes
    and goes in one version, and the table's row is not needed to tell the two apart.

    Args:
        rows: At least the columns ``compared``.
        kinds: As they came.
        keys: The key number of each change.
        order: `feed_order`.
        compared: The columns in which rows are equal.
        cancelling: The kinds of rows that go and cancel an equal one.
    """
    goes = np.isin(kinds, cancelling)
    counts = goes | ~np.isin(kinds, (DELETE, UPDATE_BEFORE))
    places = np.flatnonzero(counts)
    at, same = _equal_rows(
        taken_rows(rows.select(compared), places), goes[places], keys[places], order[places], compared
    )
    is_left = np.ones(len(kinds), dtype=bool)
    here = goes[places][at]
    num_pairs = np.minimum(np.bincount(same[here], minlength=len(at)), _num_coming(same, here))
    for side in (here, ~here):
        of_side = same[side]
        by_row = np.argsort(of_side, kind="stable")
        ranked = of_side[by_row]
        rank = np.arange(len(ranked)) - np.searchsorted(ranked, ranked)
        is_left[places[at[side][by_row[rank < num_pairs[ranked]]]]] = False
    return is_left


def _num_coming(same: NDArray[np.int64], goes: NDArray[np.bool_]) -> NDArray[np.int64]:
    return np.bincount(same[~goes], minlength=len(same))


def _equal_rows(
    rows: pa.Table,
    goes: NDArray[np.bool_],
    keys: NDArray[np.int64],
    order: NDArray[np.int64],
    compared: Sequence[str],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The changes of keys of which rows go and come in one version, and a number for each that equal rows of a key and
    a version share, less than the number of these changes."""
    group = _by_version(keys, order)
    num_groups = int(group.max(initial=-1)) + 1
    has_both = (np.bincount(group[goes], minlength=num_groups) > 0) & (
        np.bincount(group[~goes], minlength=num_groups) > 0
    )
    at = np.flatnonzero(has_both[group])
    if not len(at):
        return at, at
    values = row_numbers(taken_rows(rows.select(compared), at), len(at))[0]
    return at, np.unique(np.stack([group[at], values], axis=1), axis=0, return_inverse=True)[1].reshape(-1)


def _by_version(keys: NDArray[np.int64], order: NDArray[np.int64]) -> NDArray[np.int64]:
    """A number for each change, which the changes of a key in one version share."""
    pairs = np.stack([keys, order // _PLACES], axis=1)
    return np.unique(pairs, axis=0, return_inverse=True)[1].reshape(-1)


def of_feed(kinds: NDArray[np.int8], both: NDArray[np.bool_]) -> NDArray[np.int8]:
    """The kinds of a feed's changes where only whole rows count: every row that goes is deleted, as the new row of its
    key comes later, but not the rows ``both`` that come and go in one version (`in_versions`)."""
    goes = (kinds == DELETE) | (kinds == UPDATE_BEFORE)
    return np.where(goes, np.where(both, np.int8(UPDATE_BEFORE), np.int8(DELETE)), kinds)


def of_moved_keys(kinds: NDArray[np.int8], keys: NDArray[np.int64], order: NDArray[np.int64]) -> NDArray[np.int8]:
    """The kinds of a feed's changes where columns count one by one: an update that changes the key deletes the row of
    the old key, so a preimage whose key has no row that comes in its version is a delete. ``order`` is `feed_order`."""
    goes = (kinds == DELETE) | (kinds == UPDATE_BEFORE)
    group = _by_version(keys, order)
    comes = np.bincount(group[~goes], minlength=int(group.max(initial=-1)) + 1) > 0
    return np.where((kinds == UPDATE_BEFORE) & ~comes[group], np.int8(DELETE), kinds)
