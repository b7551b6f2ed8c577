"""EXPLAIN: the files that it says are skipped can be taken away, and the statement still runs."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import txlog
from txlog.errors import InvalidInputError, NotFoundError


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("explain") / "warehouse"
    catalog = txlog.Catalog(folder)
    txlog.sql("create table t (id bigint, day date, v int) partitioned by (day); create table u (k bigint)", catalog)
    for number in range(4):
        txlog.sql(f"insert into t values ({number}, date'2026-01-0{number + 1}', {number * 10})", catalog)
        txlog.sql(f"insert into u values ({number})", catalog)
    return folder


@pytest.fixture
def catalog(folder: Path, tmp_path: Path) -> txlog.Catalog:
    return txlog.Catalog(shutil.copytree(folder, tmp_path / "warehouse"))


def explained(catalog: txlog.Catalog, text: str) -> list[tuple[str, int, int]]:
    found = txlog.sql(f"explain {text}", catalog).read_all().to_pylist()
    assert all(row["files"] == row["files_read"] + row["files_skipped"] == 4 for row in found)
    return [(row["table"], row["files_read"], row["version"]) for row in found]


QUERIES = {
    "select v from t where day = '2026-01-02'": [("t", 1, 4)],
    "select v from t where day > '2026-01-02' and v in (20, 30) and upper(cast(v as string)) <> 'x'": [("t", 2, 4)],
    "select count(*) from t x join u on x.id = u.k where x.v >= 30 and k < 2": [("t", 1, 4), ("u", 2, 4)],
    "select * from t left join u on t.id = u.k where v = 0 and k = 0": [("t", 1, 4), ("u", 4, 4)],
    "select v from t where v = 0 or id = 1": [("t", 4, 4)],
    "select v from t version as of 4 where v is null": [("t", 4, 4)],
    "with c as (select id from t where v > 20) select * from c where id in (select k from u where k = 3)": [
        ("t", 1, 4),
        ("u", 1, 4),
    ],
    "table t": [("t", 4, 4)],
    "delete from t where v < 10": [("t", 1, 4)],
    "update t set v = 1 where day in ('2026-01-03', '2026-01-04')": [("t", 2, 4)],
    "delete from t where v = 10 and id in (select k from u where k > 2)": [("t", 1, 4), ("u", 1, 4)],
    "insert into u select id from t where v = 30": [("t", 1, 4)],
}


@pytest.mark.parametrize("text", QUERIES)
def test_explain_says_which_files_are_read_and_writes_nothing(catalog: txlog.Catalog, text: str) -> None:
    assert explained(catalog, text) == QUERIES[text]
    assert (catalog.table("t").version, catalog.table("u").version) == (4, 4)


@pytest.mark.parametrize("text", [text for text in QUERIES if text.startswith(("select", "with"))])
def test_a_query_opens_none_of_the_files_that_explain_says_it_skips(catalog: txlog.Catalog, text: str) -> None:
    expected = txlog.sql(text, catalog).read_all()
    for row in txlog.sql(f"explain {text}", catalog).read_all().to_pylist():
        table = catalog.table(row["table"])
        read = set(table.snapshot().files(row["condition"])["path"].to_pylist())
        for path in table.snapshot().files()["path"].to_pylist():
            if path not in read:
                (Path(table.uri) / path).unlink()
    assert txlog.sql(text, catalog).read_all().equals(expected)


def test_without_a_file_that_explain_says_it_reads_a_query_fails(catalog: txlog.Catalog) -> None:
    table = catalog.table("t")
    (path,) = table.snapshot().files("v = 10")["path"].to_pylist()
    (Path(table.uri) / path).unlink()
    with pytest.raises((NotFoundError, InvalidInputError)):
        txlog.sql("select v from t where v = 10", catalog).read_all()


def test_what_reads_no_rows_is_not_explained(catalog: txlog.Catalog) -> None:
    for text in ("explain drop table t", "explain vacuum t", "explain explain select 1"):
        with pytest.raises(InvalidInputError, match=r"reads no rows|takes a statement"):
            txlog.sql(text, catalog)
