"""The row id and the commit version of every row, one by one, through a branch, a rebase and a publication.

They are computed here from the files and the log alone, as the protocol says.
"""

from __future__ import annotations

import contextlib
import itertools
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import txlog
from txlog import Table
from txlog.core.format.file_columns import add_files_of
from txlog.core.format.paths import resolve_data_path
from txlog.core.reading import DeletionVectorReader
from txlog.errors import ConflictError

TRACKED = {"delta.enableRowTracking": "true"}
VECTORS = {"delta.enableDeletionVectors": "true"}
ways = pytest.mark.parametrize("way", [VECTORS, {}], ids=["vectors", "copies"])


class Row(NamedTuple):
    value: int
    id: int
    version: int


def rows_of(*ids: int, value: int = 0) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "v": pa.array([value] * len(ids), pa.int64())})


def made(path: Path, way: dict[str, str]) -> Table:
    table = Table.create(path / "t", rows_of().schema, (), {**TRACKED, **way})
    table.append(rows_of(1, 2, 3))
    table.append(rows_of(4, 5, 6))
    return table


def tracked(table: Table) -> dict[int, Row]:
    """Each live row of the newest version, by its key."""
    snapshot = Table.open(table.uri).snapshot()
    columns = (f"delta.rowTracking.materialized{what}ColumnName" for what in ("RowId", "RowCommitVersion"))
    names = [snapshot.properties[key] for key in columns]
    vectors = DeletionVectorReader(table._open_table.store, snapshot.version)
    found: dict[int, Row] = {}
    for add in add_files_of(snapshot.files()):
        file = pq.read_table(Path(table.uri, str(resolve_data_path(add.path).path)), partitioning=None)
        rows = file.select(["id", "v"]).to_pylist()
        stored = [file.column(name).to_pylist() if name in file.schema.names else [None] * len(rows) for name in names]
        dead = set() if add.deletion_vector is None else {*vectors.dead_rows(add.deletion_vector, len(rows)).tolist()}
        assert add.base_row_id is not None
        assert add.default_row_commit_version is not None
        for at, (row, id, version) in enumerate(zip(rows, *stored, strict=True)):
            if at not in dead:
                assert row["id"] not in found
                found[row["id"]] = Row(
                    row["v"],
                    add.base_row_id + at if id is None else id,
                    add.default_row_commit_version if version is None else version,
                )
    assert len({each.id for each in found.values()}) == len(found), "two rows have one id"
    return found


@ways
def test_every_row_keeps_its_id_through_a_branch_a_rebase_and_a_publication(
    way: dict[str, str], tmp_path: Path
) -> None:
    table = made(tmp_path, way)
    begun = tracked(table)
    branch = table.branch("b")
    assert tracked(branch) == begun
    branch.append(rows_of(10, 11))
    own = {key: row for key, row in tracked(branch).items() if key >= 10}
    assert min(row.id for row in own.values()) > max(row.id for row in begun.values())
    branch.delete("id = 1")
    branch.update({"v": txlog.lit(7)}, "id = 4")
    wanted = {key: begun[key] for key in (2, 3, 5, 6)} | own
    assert tracked(branch) == wanted | {4: Row(7, begun[4].id, branch.version)}
    changed_at = branch.version
    table.append(rows_of(20))
    theirs = {20: tracked(table)[20]}
    branch.rebase()
    assert tracked(branch) == wanted | theirs | {4: Row(7, begun[4].id, changed_at)}
    version = branch.publish().version
    assert version is not None
    landed = {key: row._replace(version=version) for key, row in (own | {4: Row(7, begun[4].id, 0)}).items()}
    assert tracked(table) == wanted | theirs | landed
    table.append(rows_of(30))
    assert tracked(table)[30].id > max(row.id for row in landed.values())
    assert table.verify().is_sound


def test_rows_that_a_rebase_takes_anew_have_the_ids_that_their_table_gives_them(tmp_path: Path) -> None:
    table = made(tmp_path, {})
    begun = tracked(table)
    branch = table.branch("b")
    branch.delete("id = 1")  # copies 2 and 3
    changed_at = None
    for deleted in (2, 5):
        table.delete(f"id = {deleted}")
        changed_at = table.update({"v": txlog.lit(deleted)}, "id = 6").version
        branch.rebase()
    wanted = {3: begun[3], 4: begun[4], 6: Row(5, begun[6].id, changed_at or -1)}
    assert tracked(branch) == wanted
    branch.publish()
    assert tracked(table) == wanted
    assert table.verify().is_sound


@ways
def test_rows_that_a_branch_made_and_copied_are_of_the_version_that_publishes_them(
    way: dict[str, str], tmp_path: Path
) -> None:
    """The versions of a branch are not those of its table."""
    table = made(tmp_path, way)
    table.append(rows_of(7))
    branch = table.branch("b")
    branch.append(rows_of(10, 11, 12))
    branch.delete("id = 10", row_mode="copy-on-write")
    published = branch.publish(keep=True).version
    assert [tracked(table)[key].version for key in (11, 12)] == [published] * 2
    landed = tracked(table)
    branch.rebase()
    assert tracked(branch) == landed
    branch.delete("id = 11", row_mode="copy-on-write")
    branch.publish()
    assert {key: row for key, row in tracked(table).items() if key != 12} == {key: landed[key] for key in range(1, 8)}


def test_a_published_file_in_which_a_branch_deleted_rows_is_rebased(tmp_path: Path) -> None:
    table = made(tmp_path, VECTORS)
    branch = table.branch("b")
    branch.append(rows_of(10, 11, 12))
    branch.publish(keep=True)
    landed = tracked(table)
    branch.delete("id = 10")
    table.delete("id = 12")
    branch.rebase()
    branch.publish()
    assert tracked(table) == tracked(branch) == {key: row for key, row in landed.items() if key not in (10, 12)}


# --- any history ------------------------------------------------------------------------------------------------------


class History:
    """A table and a branch that is kept, and what each row of both must be."""

    def __init__(self, path: Path, seed: int) -> None:
        self.draw = random.Random(seed)
        self.table = made(path, VECTORS if seed % 2 else {})
        self.branch = self.table.branch("b")
        self.keys = itertools.count(100)
        self.own: set[int] = set()
        """The keys of rows that the branch made or changed, and has not published."""
        self.deleted: set[int] = set()
        """The keys that its deletes named since then."""
        self.gone: set[int] = set()
        """Those of rows that it had."""
        self.published: set[int] = set()
        """The keys of rows that it made, and that its table has, with other versions until it is rebased."""
        self.refused = 0

    def run(self) -> None:
        steps: list[tuple[Callable[[], Any], int]] = [
            (lambda: self.append(self.table), 2),
            (lambda: self.delete(self.table), 3),
            (lambda: self.update(self.table), 2),
            (self.table.optimize, 1),
            (lambda: self.append(self.branch), 2),
            (lambda: self.delete(self.branch), 3),
            (lambda: self.update(self.branch), int(self.draw.random() < 0.3)),
            (self.transaction, 1),
            (self.branch.optimize, 1),
            (self.rebase, 3),
            (self.publish, 2),
        ]
        for _ in range(self.draw.randint(6, 16)):
            step = self.draw.choices([step for step, _ in steps], [weight for _, weight in steps])[0]
            before = [tracked(each) for each in (self.table, self.branch)]
            with contextlib.suppress(ConflictError):
                step()
            self.check_kept(*before)
        assert self.table.verify().is_sound
        assert self.branch.verify().is_sound

    def check_kept(self, *before: dict[int, Row]) -> None:
        """Each row has the id that it had, and if its value is the same, its commit version."""
        ids = {key: row.id for rows in before for key, row in rows.items()}
        own = self.own | self.published
        for was, each in zip(before, (self.table, self.branch), strict=True):
            for key, row in tracked(each).items():
                assert row.id == ids.get(key, row.id), key
                known = was.get(key)
                if known is not None and known.value == row.value and not (each is self.branch and key in own):
                    assert row.version == known.version or (key in own and row.version > known.version), key

    def some(self, table: Table) -> list[int]:
        return self.draw.sample(there := sorted(tracked(table)), min(len(there), self.draw.randint(1, 2)))

    def append(self, table: Table) -> None:
        new = [next(self.keys) for _ in range(self.draw.randint(1, 3))]
        table.append(rows_of(*new))
        self.own |= {*new} if table is self.branch else set()

    def delete(self, table: Table) -> None:
        # A branch may also delete what only its table has by now: nothing, until it is rebased.
        gone = self.some(table) + (self.some(self.table) if table is self.branch else [])
        before = tracked(table)
        if not gone:
            return
        known = table.version
        table.delete(f"id in ({', '.join(map(str, gone))})")
        assert tracked(table).keys() == before.keys() - {*gone}
        if table is self.branch and table.version > known:
            self.note_deleted(gone, before)

    def note_deleted(self, gone: list[int], before: dict[int, Row]) -> None:
        self.deleted |= {*gone}
        self.gone |= before.keys() & gone
        self.own -= {*gone}

    def update(self, table: Table) -> None:
        changed = self.some(table)
        if changed:
            value = next(self.keys)
            table.update({"v": txlog.lit(value)}, f"id in ({', '.join(map(str, changed))})")
            self.own |= {*changed} if table is self.branch else set()

    def transaction(self) -> None:
        before, gone, new = tracked(self.branch), self.some(self.branch), next(self.keys)
        with self.branch.transaction() as txn:
            if gone:
                txn.delete(f"id in ({', '.join(map(str, gone))})")
            txn.append(rows_of(new))
        self.note_deleted(gone, before)
        self.own.add(new)

    def wanted(self, table: dict[int, Row], branch: dict[int, Row]) -> dict[int, int]:
        """The values of a branch that is rebased on these rows of its table."""
        found = {key: row.value for key, row in table.items() if key not in self.deleted}
        return found | {key: branch[key].value for key in self.own}

    def rebase(self) -> None:
        table, branch = tracked(self.table), tracked(self.branch)
        try:
            self.branch.rebase()
        except ConflictError:
            self.refused += 1
            assert tracked(self.branch) == branch
            raise
        rebased = tracked(self.branch)
        assert {key: row.value for key, row in rebased.items()} == self.wanted(table, branch)
        for key in rebased.keys() - self.own:
            assert rebased[key][:2] == table[key][:2]
            assert rebased[key] == table[key] or key in self.published  # one that it copied since
        self.gone |= self.deleted & table.keys()

    def publish(self) -> None:
        table, branch = tracked(self.table), tracked(self.branch)
        try:
            self.branch.publish(keep=True)
        except ConflictError:
            assert tracked(self.table) == table
            raise
        landed = tracked(self.table)
        assert {key: landed[key].value for key in self.own} == {key: branch[key].value for key in self.own}
        assert landed.keys().isdisjoint(self.gone)
        others = table.keys() - self.gone - self.own
        for key in others:
            assert landed[key][:2] == table[key][:2]
            # One that it published and copied since counts as changed.
            assert landed[key] == table[key] or (key in self.published and landed[key].version > table[key].version)
        assert landed.keys() <= table.keys() | self.own
        self.published |= self.own
        self.own.clear()
        self.deleted.clear()
        self.gone.clear()


@pytest.mark.hunt(part="branches")
@pytest.mark.parametrize("seed", range(40))
def test_any_history_of_a_table_and_its_branch_keeps_every_row_and_its_id(seed: int, tmp_path: Path) -> None:
    History(tmp_path, seed).run()
