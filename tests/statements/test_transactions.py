"""``BEGIN TRANSACTION; ...; COMMIT``: statements that change several tables, all of them or none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import deltalake
import pytest
from typer.testing import CliRunner

import txlog
from txlog.cli.app import app
from txlog.core.store import TableStore, open_store
from txlog.core.versions import OpenTable
from txlog.statements.script import ends_statement
from txlog.testing.faults import Crashed, Fault, FaultyLogStore, StoreCall

ORDER = """
INSERT INTO s.orders SELECT 1, item FROM s.stock WHERE item = 'lamp' AND pieces > 0;
UPDATE s.stock SET pieces = pieces - 1 WHERE item = 'lamp';
"""
BLOCKS = {
    "begin transaction": f"BEGIN TRANSACTION; {ORDER} COMMIT",
    "begin": f"BEGIN; {ORDER} COMMIT TRANSACTION;",
    "start": f"START TRANSACTION; {ORDER} COMMIT",
    "atomic": f"BEGIN ATOMIC {ORDER} END;",
}


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    folder = tmp_path / "shop"
    txlog.sql("CREATE TABLE s.orders (id bigint, item string); CREATE TABLE s.stock (item string, pieces int)", folder)
    txlog.sql("INSERT INTO s.stock VALUES ('lamp', 5), ('desk', 2)", folder)
    return folder


def rows(folder: Path, name: str) -> list[dict[str, Any]]:
    """What another engine reads."""
    found: list[dict[str, Any]] = deltalake.DeltaTable(str(folder / "s" / name)).to_pyarrow_table().to_pylist()
    return sorted(found, key=str)


def operations(folder: Path, name: str) -> list[str]:
    return [each["operation"] for each in txlog.Table.open(folder / "s" / name).history()]


@pytest.mark.parametrize("text", BLOCKS.values(), ids=BLOCKS)
def test_the_statements_of_a_transaction_land_together(text: str, shop: Path) -> None:
    done = txlog.sql(text, shop).read_all()
    assert done.select(["table", "num_updated_rows", "num_inserted_rows"]).to_pylist() == [
        {"table": "s.orders", "num_updated_rows": 0, "num_inserted_rows": 1},
        {"table": "s.stock", "num_updated_rows": 1, "num_inserted_rows": 0},
    ]
    assert rows(shop, "orders") == [{"id": 1, "item": "lamp"}]
    assert rows(shop, "stock") == [{"item": "desk", "pieces": 2}, {"item": "lamp", "pieces": 4}]
    assert "PREPARE TRANSACTION" in operations(shop, "orders") + operations(shop, "stock")


def test_a_statement_that_fails_lets_nothing_of_its_transaction_land(shop: Path) -> None:
    text = "BEGIN; INSERT INTO s.orders VALUES (1, 'lamp'); UPDATE s.stock SET pieces = 'many'; COMMIT"
    with pytest.raises(txlog.errors.InvalidInputError, match="'many' is not a value of type int"):
        txlog.sql(text, shop)
    assert rows(shop, "orders") == []
    assert len(operations(shop, "stock")) == 2


def test_a_change_sees_what_statements_before_it_changed(shop: Path) -> None:
    text = """BEGIN;
    ALTER TABLE s.orders ADD COLUMNS (note string FIRST);
    INSERT INTO s.orders VALUES ('a', 1, 'lamp'), ('b', 2, 'desk');
    DELETE FROM s.orders WHERE id = 2;
    MERGE INTO s.stock AS t USING (SELECT 'sofa' AS item, 3 AS pieces) AS n ON t.item = n.item
        WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *;
    UPDATE s.stock SET pieces = 0 WHERE pieces = 3;
    COMMIT"""
    txlog.sql(text, shop)
    assert rows(shop, "orders") == [{"note": "a", "id": 1, "item": "lamp"}]
    assert {each["item"]: each["pieces"] for each in rows(shop, "stock")} == {"lamp": 5, "desk": 2, "sofa": 0}


def test_a_query_that_would_not_see_the_transaction_s_own_changes_is_refused(shop: Path) -> None:
    text = "BEGIN; DELETE FROM s.stock WHERE pieces = 2; INSERT INTO s.orders SELECT 1, item FROM s.stock; COMMIT"
    with pytest.raises(txlog.errors.InvalidInputError, match="was changed by an earlier statement") as raised:
        txlog.sql(text, shop)
    assert "s.stock, which is read at line 1, column 87" in str(raised.value)
    assert len(rows(shop, "stock")) == 2


def test_what_a_query_read_must_not_have_changed_when_the_transaction_lands(shop: Path) -> None:
    results = txlog.SqlSession(shop)._results(f"BEGIN; {ORDER} COMMIT", None, "spark")
    next(results)  # the order, of what is in stock
    txlog.sql("DELETE FROM s.stock WHERE item = 'lamp'", shop)
    with pytest.raises(txlog.errors.ConflictError):
        list(results)
    assert rows(shop, "orders") == []


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("BEGIN; VACUUM s.stock; COMMIT", "column 8, VACUUM: this statement cannot be part of a transaction"),
        ("BEGIN; ALTER TABLE s.stock CREATE BRANCH b; COMMIT", "cannot be part of a transaction"),
        ("BEGIN; INSERT WITH SCHEMA EVOLUTION INTO s.stock SELECT 1; COMMIT", "WITH SCHEMA EVOLUTION is not for"),
        ("BEGIN; BEGIN; COMMIT", "has not ended: write COMMIT before"),
        ("BEGIN; DELETE FROM s.stock", "does not end in this text: write COMMIT after"),
        ("BEGIN ATOMIC DELETE FROM s.stock; COMMIT", "expected END"),
        ("BEGIN DELETE FROM s.stock; END", "expected a semicolon"),
        ("BEGIN; DELETE FROM s.stock; ROLLBACK", "rolls the transaction back by itself"),
        ("DELETE FROM s.stock; COMMIT", "no transaction has begun"),
        ("BEGIN; COMMIT", "this transaction changes and reads no table"),
        ("BEGIN; SELECT * FROM table_changes('s.stock', 0); DELETE FROM s.orders; COMMIT", "name the last version too"),
    ],
)
def test_what_cannot_be_a_transaction_is_refused_and_nothing_is_run(text: str, why: str, shop: Path) -> None:
    with pytest.raises(txlog.errors.InvalidInputError, match=why):
        txlog.sql(text, shop)
    assert len(rows(shop, "stock")) == 2


def test_an_entered_transaction_ends_with_its_last_word() -> None:
    assert not ends_statement("BEGIN; DELETE FROM s.stock;")
    assert ends_statement("BEGIN; DELETE FROM s.stock; COMMIT;")


def test_the_command_line_runs_a_file_with_a_transaction(shop: Path, tmp_path: Path) -> None:
    (tmp_path / "order.sql").write_text(BLOCKS["atomic"])
    done = CliRunner().invoke(app, ["sql", "--file", str(tmp_path / "order.sql"), "--catalog", str(shop)])
    assert done.exit_code == 0, done.output
    assert "s.orders" in done.stdout
    assert "s.stock" in done.stdout
    assert rows(shop, "orders") == [{"id": 1, "item": "lamp"}]


def test_a_transaction_whose_process_dies_after_the_decision_is_finished_by_the_next_statement(
    shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    puts = 0

    def decide(call: StoreCall) -> Fault | None:
        nonlocal puts
        puts += call.operation == "put_if_absent" and call.name.endswith(".json")
        return Fault("crash_after") if puts == 2 else Fault("crash_before") if puts > 2 else None

    def opened(uri: str, **_: object) -> txlog.Table:
        real = open_store(uri)
        assert real.staging is not None
        log = FaultyLogStore(real.log, decide, files=real.files)
        return txlog.Table(OpenTable(TableStore(real.uri, log, real.files, real.staging)))

    text = f"BEGIN; {ORDER} COMMIT"
    for name in ("orders", "stock"):
        text = text.replace(f"s.{name}", f"delta.`{shop / 's' / name}`")
    with monkeypatch.context() as inside:
        inside.setattr(txlog.Table, "open", opened)
        with pytest.raises(Crashed):
            txlog.sql(text)
    assert (len(rows(shop, "orders")), {"item": "lamp", "pieces": 4} in rows(shop, "stock")) in ((0, True), (1, False))
    txlog.sql("INSERT INTO s.orders VALUES (2, 'desk'); DELETE FROM s.stock WHERE item = 'desk'", shop)
    assert rows(shop, "orders") == [{"id": 1, "item": "lamp"}, {"id": 2, "item": "desk"}]
    assert rows(shop, "stock") == [{"item": "lamp", "pieces": 4}]
