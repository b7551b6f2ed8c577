"""Random programs of changes of columns and of rows, restores and upkeep, beside a model in plain Python.

After each step the newest version, and some older one, hold what the model says. deltalake's own engine reads tables
whose types have not changed. `TXLOG_EXAMPLES` draws more programs.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest

import txlog
from txlog.audit.verify import verify_table
from txlog.table import Table

WIDER = {
    "tinyint": ("smallint", "bigint", "double"),
    "smallint": ("int", "decimal(14,2)"),
    "int": ("bigint", "double", "decimal(20,0)"),
    "float": ("double",),
    "decimal(14,2)": ("decimal(20,5)",),
}
VALUES: dict[str, tuple[Any, ...]] = {
    "tinyint": (-128, 7, 127),
    "smallint": (-32768, 7, 32767),
    "int": (-(2**31), 7, 2**31 - 1),
    "bigint": (-(2**63), 7, 2**63 - 1),
    "float": (0.5, 7.0, -(2.0**60)),
    "double": (0.1, 7.0, 1e300),
    "decimal(14,2)": (Decimal("-7.25"), Decimal("7.00")),
    "decimal(20,0)": (Decimal(7), Decimal(10**19)),
    "decimal(20,5)": (Decimal("7.00001"), Decimal("7.00000")),
    "string": ("", "x", "é"),
}
Row = dict[int, Any]


class Program:
    """A table and its model: columns as (id, name, type) in order, and rows as values by the id of a column."""

    def __init__(self, path: Path, seed: int) -> None:
        self.choose = random.Random(seed)
        self.path = path / "t"
        self.widens = self.choose.random() < 0.6
        self.partitioned = self.choose.random() < 0.3
        self.columns = [(0, "k", "int"), (1, "v", "tinyint"), (2, "p", "string"), (3, "f", "float")]
        self.rows: list[Row] = []
        self.fresh = 4
        mode = self.choose.choice((None, "name", "id"))
        properties = {
            "delta.enableTypeWidening": "true" if self.widens else "false",
            "delta.enableDeletionVectors": self.choose.choice(("true", "false")),
            "delta.enableRowTracking": self.choose.choice(("true", "false")),
            "delta.checkpointInterval": "3",
        }
        ddl = ", ".join(f"{name} {kind}" for _, name, kind in self.columns)
        self.table = Table.create(
            self.path,
            ddl,
            ["p"] if self.partitioned else None,
            properties,
            column_mapping=mode,  # type: ignore[arg-type]
        )
        self.is_widened = False
        self.steps: list[str] = []
        self.versions: dict[int, tuple[list[tuple[int, str, str]], list[Row]]] = {}
        self.append()
        if mode is None:
            self.table.set_properties({"delta.columnMapping.mode": "name"})
        self.remember()

    # --- rows -----------------------------------------------------------------------------------------------------

    def named(self, row: Row) -> dict[str, Any]:
        return {name: row.get(number) for number, name, _ in self.columns}

    def data(self, rows: list[Row]) -> pa.Table:
        schema = pa.schema([field.remove_metadata() for field in self.table.schema])
        return pa.Table.from_pylist([self.named(row) for row in rows], schema=schema)

    def new_row(self, key: int) -> Row:
        row = {number: self.choose.choice((None, *VALUES[kind])) for number, _, kind in self.columns}
        if self.partitioned and row.get(2) == "":
            row[2] = None  # as Delta stores it
        return {**row, 0: key}

    def append(self) -> None:
        rows = [self.new_row(self.choose.randint(0, 9)) for _ in range(self.choose.randint(1, 3))]
        self.table.append(self.data(rows))
        self.rows = self.rows + rows

    def upsert(self) -> None:
        row = self.new_row(self.choose.randint(0, 12))
        self.table.upsert(self.data([row]), [self.name_of(0)])
        self.rows = [each for each in self.rows if each[0] != row[0]] + [row]

    def delete(self) -> None:
        key = self.choose.randint(0, 9)
        self.table.delete(txlog.col(self.name_of(0)) == key)
        self.rows = [row for row in self.rows if row[0] != key]

    def name_of(self, number: int) -> str:
        return next(name for found, name, _ in self.columns if found == number)

    # --- columns --------------------------------------------------------------------------------------------------

    def rename(self) -> None:
        at = self.choose.randrange(len(self.columns))
        number, old, kind = self.columns[at]
        used = {name.lower() for _, name, _ in self.columns}
        name = self.choose.choice(
            [each for each in ("k", "v", "p", "f", "a b", "x.y", "Z") if each.lower() not in used]
        )
        self.table.rename_column(f"`{old}`", name)
        self.columns = [*self.columns[:at], (number, name, kind), *self.columns[at + 1 :]]

    def exchange(self) -> None:
        if len(self.columns) < 2:
            return
        first, second = self.choose.sample(range(len(self.columns)), 2)
        (one, a, _), (other, b, _) = self.columns[first], self.columns[second]
        with self.table.transaction() as txn:
            txn.rename_column(f"`{a}`", "for a moment")
            txn.rename_column(f"`{b}`", a)
            txn.rename_column("`for a moment`", b)
        swapped = {one: b, other: a}
        self.columns = [(number, swapped.get(number, name), kind) for number, name, kind in self.columns]

    def drop(self) -> None:
        found = [column for column in self.columns if column[0] != 0 and not (self.partitioned and column[0] == 2)]
        if not found:
            return
        number, name, _ = self.choose.choice(found)
        self.table.drop_columns(f"`{name}`")
        self.columns = [column for column in self.columns if column[0] != number]
        self.rows = [{key: value for key, value in row.items() if key != number} for row in self.rows]

    def add(self) -> None:
        used = {name.lower() for _, name, _ in self.columns}
        free = [each for each in ("v", "p", "f", "n", "m") if each not in used]
        name = self.choose.choice(free or [f"c{self.fresh}"])
        kind = self.choose.choice(("tinyint", "float", "string"))
        self.table.add_columns(f"{name} {kind}")
        self.columns = [*self.columns, (self.fresh, name, kind)]
        self.fresh += 1

    def widen(self) -> None:
        found = [(at, kind) for at, (_, _, old) in enumerate(self.columns) for kind in WIDER.get(old, ())]
        found = [each for each in found if self.columns[each[0]][0] != 0]
        if not self.widens or not found:
            return
        at, kind = self.choose.choice(found)
        number, name, _ = self.columns[at]
        self.table.alter_column(f"`{name}`", type=kind)
        convert: Callable[[Any], Any] = Decimal if kind.startswith("decimal") else float if kind == "double" else int
        self.rows = [{**row, number: convert(row[number])} if row.get(number) is not None else row for row in self.rows]
        self.columns = [*self.columns[:at], (number, name, kind), *self.columns[at + 1 :]]
        self.is_widened = True

    def move(self) -> None:
        column = self.choose.choice(self.columns)
        self.table.alter_column(f"`{column[1]}`", first=True)
        self.columns = [column, *(each for each in self.columns if each is not column)]

    # --- upkeep ---------------------------------------------------------------------------------------------------

    def optimize(self) -> None:
        self.table.optimize()

    def purge(self) -> None:
        self.table.purge()

    def restore(self) -> None:
        version = self.choose.choice([*self.versions])
        self.table.restore(version)
        self.columns, self.rows = self.versions[version]

    def reopen(self) -> None:
        self.table = Table.open(self.path)

    # --- judgment -------------------------------------------------------------------------------------------------

    def step(self) -> None:
        change = self.choose.choice(STEPS)
        self.steps.append(change.__name__)
        change(self)
        self.remember()
        told = f"{self.steps} {self.path}"
        assert self.table.schema.names == [name for _, name, _ in self.columns], told
        self.judge(self.table.snapshot(), self.columns, self.rows, told)
        version = self.choose.choice([*self.versions])
        self.judge(self.table.snapshot(version), *self.versions[version], f"v{version} of {told}")

    def remember(self) -> None:
        self.versions[self.table.version] = self.columns, self.rows

    def judge(self, snapshot: Any, columns: list[tuple[int, str, str]], rows: list[Row], told: str) -> None:
        expected = sorted(str([_plain(row.get(number)) for number, _, _ in columns]) for row in rows)
        found = snapshot.to_arrow()
        assert found.schema.names == [name for _, name, _ in columns], told
        assert sorted(str([*map(_plain, row.values())]) for row in found.to_pylist()) == expected, told
        number, name, kind = self.choose.choice(columns)
        if kind != "string":
            values = [row[number] for row in rows if row.get(number) is not None]
            bound = self.choose.choice([*values, VALUES[kind][0]])
            kept = snapshot.to_arrow([name], txlog.col(name) >= bound)[name].to_pylist()
            assert sorted(kept) == sorted(value for value in values if value >= bound), f"{name} >= {bound} in {told}"

    def end(self) -> None:
        assert verify_table(self.table._open_table.store).is_sound, self.steps
        if not self.is_widened and not self.widens:
            theirs = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(str(self.path)))
            names = ", ".join(f'"{name}"' for _, name, _ in self.columns)
            found = pa.table(theirs.execute(f"select {names} from t").read_all()).to_pylist()
            expected = sorted(str([_plain(row.get(number)) for number, _, _ in self.columns]) for row in self.rows)
            assert sorted(str([*map(_plain, row.values())]) for row in found) == expected, self.steps


def _plain(value: Any) -> Any:
    return value.normalize() + 0 if isinstance(value, Decimal) else value


STEPS: tuple[Callable[[Program], None], ...] = (
    *(Program.append, Program.append, Program.upsert, Program.delete),
    *(Program.rename, Program.exchange, Program.drop, Program.add, Program.widen, Program.widen, Program.move),
    *(Program.optimize, Program.purge, Program.restore, Program.reopen),
)


@pytest.mark.parametrize("seed", range(int(os.environ.get("TXLOG_EXAMPLES", "10"))))
def test_a_program_of_changes_leaves_what_a_model_says_in_every_version(tmp_path: Path, seed: int) -> None:
    program = Program(tmp_path, seed)
    for _ in range(16):
        program.step()
    program.end()
