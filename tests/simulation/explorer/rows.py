"""The rows of a story's table at each version, read from the bytes of its files without ``txlog.core.reading``.

In: the file actions of a commit that becomes visible, and how its operation changes rows. Out: nothing, or
`InvariantBroken`. Two rules are checked: the rows of a version are those of the version before, changed by the
operation that was committed, as if there were one writer; and each deletion vector that a commit names was complete
before, and marks as many rows as it declares. Of a commit that holds changes back, the file in quarantine is checked
too; of a table that keeps deleted keys, that each is there; and of a table that counts its rows, that no two rows get
one number.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache, partial
from typing import Any, TypeAlias

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
from pyroaring import BitMap64

from explorer.effects import Buried, Change, HoldsBack, InSequence, Row
from explorer.versions import InvariantBroken
from txlog.core.format.actions import DeletionVectorDescriptor
from txlog.core.format.deletion_vector import vector_path
from txlog.testing.memory_store import MemoryFileStore

__all__ = ["COUNTED", "ROW_SCHEMA", "Makes", "Row", "RowHistory", "file_of", "table_of"]

Makes: TypeAlias = Callable[[list[Row]], list[Row]]
"""An operation as a function from all rows of a table before it to all rows after it."""

COUNTED = "n"
"""The identity column of a table that counts its rows; the rows of the base have no number."""

ROW_SCHEMA = pa.schema([("id", pa.int64()), ("part", pa.string()), ("v", pa.int64())])

_TOMBSTONES = "txlog.tombstones"
_MAGIC = (1681511377).to_bytes(4, "little")


def table_of(rows: list[Row]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(ROW_SCHEMA.names, row, strict=True)) for row in rows], ROW_SCHEMA)


@lru_cache(maxsize=1024)
def file_of(values: tuple[tuple[int, int | None], ...]) -> bytes:
    """A data file with these keys and values. Its partition is only in its name."""
    sink = pa.BufferOutputStream()
    keys, numbers = zip(*values, strict=True)
    pq.write_table(pa.table({"id": pa.array(keys, pa.int64()), "v": pa.array(numbers, pa.int64())}), sink)
    return bytes(sink.getvalue().to_pybytes())


@lru_cache(maxsize=4096)  # a story has few files, and every version has most of them
def _values_in(body: bytes) -> tuple[tuple[int, int | None], ...]:
    found = pq.read_table(pa.BufferReader(body))
    values = found.column("v").to_pylist() if "v" in found.column_names else [None] * found.num_rows
    return tuple(zip(found.column("id").to_pylist(), values, strict=True))


@lru_cache(maxsize=4096)
def _numbers_in(body: bytes) -> tuple[int | None, ...]:
    found = pq.read_table(pa.BufferReader(body))
    return tuple(found.column(COUNTED).to_pylist()) if COUNTED in found.column_names else ()


def _unchanged(rows: list[Row]) -> list[Row]:
    return rows


def _given(rows: list[Row], _: list[Row]) -> list[Row]:
    return rows


class RowHistory:
    """The rows of all versions.

    Attributes:
        at: Version -> its rows, sorted.
        foreign: Version -> the operation of another engine's commit.
        buried: Version -> the deleted keys that its table keeps.
        quarantined: Version -> the file of the changes that its commit holds back.
        numbers: Version -> the numbers of its rows.
    """

    def __init__(self, files: MemoryFileStore) -> None:
        self.at: dict[int, list[Row]] = {}
        self.foreign: dict[int, Makes] = {}
        self.buried: dict[int, Buried] = {}
        self.quarantined: dict[int, str] = {}
        self.numbers: dict[int, frozenset[int]] = {}
        self._files = files

    def copy(self, files: MemoryFileStore) -> RowHistory:
        copied = RowHistory(files)
        copied.at, copied.numbers = dict(self.at), dict(self.numbers)
        return copied

    def appears(
        self,
        version: int,
        actions: Iterable[Mapping[str, Any]],
        live: Mapping[str, Any],
        makes: Makes | None,
        effect: HoldsBack | InSequence | None = None,
    ) -> None:
        """Check a version that became visible.

        A commit whose files all have ``dataChange`` false must not change rows.

        Args:
            version: The version.
            actions: The commit's actions as JSON.
            live: Path -> ``add`` action of the version's live files.
            makes: The operation; None if it is not known.
            effect: The operation, if it is more than a function of the rows before.

        Raises:
            InvariantBroken: The rows are not what the operation makes of the rows before.
        """
        actions = list(actions)
        found = sorted((row for add in live.values() for row in self.rows_of(add)), key=repr)
        before = self.at.get(version - 1)
        makes = makes or self.foreign.get(version)
        held = self._held_back(version, actions)
        buried = self.buried.get(version - 1, {})
        if before is not None and isinstance(effect, HoldsBack):
            effect.check(held, before, [self.at[earlier] for earlier in self.at if earlier < version])
            makes = partial(effect.applied, held={change[1]: case for change, case in held})
        elif before is not None and isinstance(effect, InSequence):
            expected_rows, buried = effect.applied(before, buried)
            makes = partial(_given, expected_rows)
        files = [action.get("add") or action.get("remove") or {} for action in actions]
        if not any(file.get("dataChange") for file in files):
            makes = _unchanged
        if makes is not None and before is not None and found != (expected := sorted(makes(before), key=repr)):
            raise InvariantBroken(
                "rows are those of one operation after the other", f"v{version} has {found}, not {expected}"
            )
        self.at[version] = found
        self.buried[version] = buried
        self._require_buried(version, live)
        self._require_own_numbers(version, live, actions)
        self.require_quarantined()

    def _require_own_numbers(self, version: int, live: Mapping[str, Any], actions: Iterable[Mapping[str, Any]]) -> None:
        """Check that no two rows have one number, and that a number that was gone comes back only by a restore."""
        found = [number for add in live.values() for number in self._numbers_of(add) if number is not None]
        self.numbers[version] = frozenset(found)
        if len(found) > len(self.numbers[version]):
            raise InvariantBroken("no identity value twice", f"v{version} has rows with {sorted(found)}")
        if any(action.get("commitInfo", {}).get("operation") == "RESTORE" for action in actions):
            return
        earlier = [self.numbers[each] for each in self.numbers if each < version]
        again = self.numbers[version].difference(*earlier[-1:]).intersection(frozenset().union(*earlier))
        if again:
            raise InvariantBroken("no identity value twice", f"v{version} gives {sorted(again)} again")

    def _numbers_of(self, add: Mapping[str, Any]) -> list[int | None]:
        numbers = _numbers_in(self._files.objects[add["path"]][0])
        dead = self.dead_rows(add, len(numbers)) if numbers else ()
        return [number for row, number in enumerate(numbers) if row not in dead]

    def require_values(self, version: int, schema: Mapping[str, Any]) -> None:
        """Raise `InvariantBroken` if a row of a version lacks a value for a column that is NOT NULL there."""
        required = {
            field["metadata"].get("delta.columnMapping.physicalName", field["name"])
            for field in schema["fields"]
            if not field["nullable"]
        }
        for place, name in enumerate(ROW_SCHEMA.names):
            if name in required and any(row[place] is None for row in self.at[version]):
                raise InvariantBroken("no row lacks a required value", f"v{version} has {self.at[version]}: {name}")

    def require_quarantined(self) -> None:
        """Raise `InvariantBroken` if changes that a commit holds back are gone."""
        for version, path in self.quarantined.items():
            if path not in self._files.durable:
                raise InvariantBroken("what is held back is kept", f"v{version} names {path}, which is not on disk")

    def _held_back(self, version: int, actions: list[Mapping[str, Any]]) -> list[tuple[Change, str]]:
        """The changes in the file that a commit names, each with its case."""
        infos = (action["commitInfo"].get("operationParameters", {}) for action in actions if "commitInfo" in action)
        recorded: Mapping[str, Any] = next(infos, {})
        path = recorded.get("quarantine")
        if path is None:
            return []
        self.quarantined[version] = path
        self.require_quarantined()
        rows = pq.read_table(pa.BufferReader(self._files.objects[path][0])).to_pylist()
        if int(recorded["heldBack"]) != len(rows):
            raise InvariantBroken("what is held back is kept", f"v{version} holds {recorded['heldBack']} back: {rows}")
        return [((row["_kind"], row["id"], row["part"], row["v"]), row["_case"]) for row in rows]

    def _require_buried(self, version: int, live: Mapping[str, Any]) -> None:
        """Check that each deleted key is there, in a file of deleted keys or as a newer row."""
        there: dict[int, int] = {}
        for add in live.values():
            if _TOMBSTONES in (add.get("tags") or {}):
                values: Iterable[tuple[int, int | None]] = _values_in(self._files.objects[add["path"]][0])
            else:
                values = ((key, value) for key, _, value in self.rows_of(add)) if self.buried[version] else ()
            for key, value in values:
                there[key] = max(there.get(key, -1), -1 if value is None else value)
        for key, sequence in self.buried[version].items():
            if there.get(key, -1) < sequence:
                raise InvariantBroken(
                    "a deleted key is kept", f"v{version} has {there}, and {key} was deleted at {sequence}"
                )

    def forget(self, version: int) -> None:
        """Forget a version that a power cut removed: another commit may get its number."""
        self.at.pop(version, None)
        self.foreign.pop(version, None)
        self.buried.pop(version, None)
        self.quarantined.pop(version, None)
        self.numbers.pop(version, None)

    def rows_of(self, add: Mapping[str, Any]) -> list[Row]:
        """The live rows of a file, given its ``add`` action as JSON."""
        if add["path"] not in self._files.objects:
            raise InvariantBroken("live files stay", f"{add['path']} was deleted")
        values = _values_in(self._files.objects[add["path"]][0])
        stats = orjson.loads(add["stats"]) if add.get("stats") else {}
        if stats.get("numRecords", len(values)) != len(values):
            raise InvariantBroken("statistics tell the truth", f"{add['path']} has {len(values)} rows, not {stats}")
        dead = self.dead_rows(add, len(values))
        part = add["partitionValues"]["part"]
        return [(key, part, value) for row, (key, value) in enumerate(values) if row not in dead]

    def dead_rows(self, add: Mapping[str, Any], num_rows: int) -> frozenset[int]:
        """The positions of the rows that the deletion vector of an ``add`` marks.

        Raises:
            InvariantBroken: The vector is damaged, not durable, or marks other rows than it declares.
        """
        vector = add.get("deletionVector")
        if not vector:
            return frozenset()
        path = vector_path(DeletionVectorDescriptor.from_json(vector))
        name = path.path if path else ""
        body = self._files.objects.get(name, (b"", 0))[0]
        start = vector.get("offset", 0)
        size = int.from_bytes(body[start : start + 4], "big")
        block = body[start + 4 : start + 4 + size]
        check = int.from_bytes(body[start + 4 + size : start + 8 + size], "big")
        is_whole = size == vector["sizeInBytes"] and block[:4] == _MAGIC and zlib.crc32(block) == check
        if not is_whole or name not in self._files.durable:
            raise InvariantBroken(
                "vectors are on disk before their commit", f"{add['path']} names {name}, complete: {is_whole}"
            )
        dead = frozenset(BitMap64.deserialize(block[4:]))
        is_all = len(dead) == num_rows
        if (
            len(dead) != vector["cardinality"]
            or is_all != (_TOMBSTONES in (add.get("tags") or {}))
            or max(dead) >= num_rows
        ):
            raise InvariantBroken(
                "a vector marks as many rows as it says", f"{add['path']} of {num_rows} rows: {sorted(dead)}, {vector}"
            )
        return dead
