"""Loads of a folder's new files: each once, whatever fails, and however many loads run at once."""

from __future__ import annotations

import gzip
import json
import threading
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from txlog.cli.app import app
from txlog.commands import copy_into as command
from txlog.errors import (
    CommitStateUnknownError,
    ConcurrentTransactionError,
    CorruptLogError,
    InvalidInputError,
    SchemaMismatchError,
)
from txlog.protocol import loaded_files
from txlog.protocol.actions import DomainMetadata
from txlog.protocol.loaded_files import LoadedFiles
from txlog.store.base import PutOutcome
from txlog.store.local import LocalLogStore
from txlog.table import Table
from txlog.verify.verify import verify_table
from txlog.writer.task_committer import write_task


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Table.create(tmp_path / "t", "id bigint, note string, day date")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "in coming%"
    place.mkdir()
    return place


def put(folder: Path, name: str, text: str) -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())


def csv(*ids: int) -> str:
    return "id,note,day\n" + "".join(f"{n},n{n},2026-11-{n + 1:02}\n" for n in ids)


def ids(table: Table) -> list[int]:
    return sorted(table.to_arrow()["id"].to_pylist())


def test_each_file_is_loaded_once_and_new_ones_later(table: Table, folder: Path) -> None:
    put(folder, "a.csv", csv(1, 2))
    put(folder, "sub/b.csv", csv(3))
    put(folder, "_SUCCESS", "")
    put(folder, ".hidden.csv", csv(9))
    done = table.copy_into(folder)
    assert (done.files, done.rows, done.files_skipped, done.version) == (("a.csv", "sub/b.csv"), 3, 0, 1)
    again = table.copy_into(folder)
    assert (again.files, again.files_skipped, again.version) == ((), 2, 1)
    put(folder, "c.csv", csv(4))
    assert table.copy_into(folder).files == ("c.csv",)
    assert ids(table) == [1, 2, 3, 4]
    assert verify_table(table._open_table.store).is_sound


def test_every_format_is_read_with_the_tables_types(table: Table, folder: Path) -> None:
    put(folder, "a.csv", csv(1))
    put(folder, "b.tsv", csv(2).replace(",", "\t"))
    put(folder, "c.jsonl", '{"id": 3, "day": "2026-11-04"}\n{"id": 4, "note": "x"}\n')
    put(folder, "d.json.gz", '{"id": 5}\n')
    put(folder, "e.csv.gz", csv(6))
    pq.write_table(pa.table({"note": ["p"], "id": [7]}), folder / "f.parquet")
    assert table.copy_into(folder).rows == 7
    assert ids(table) == [1, 2, 3, 4, 5, 6, 7]
    rows = {row["id"]: row for row in table.to_arrow().to_pylist()}
    assert (str(rows[3]["day"]), rows[4]["note"], rows[7]["note"]) == ("2026-11-04", "x", "p")


def test_options_of_csv_and_a_pattern_are_used(table: Table, folder: Path) -> None:
    put(folder, "2026/a.txt", "1;-;2026-11-01\n2;b;NA\n")
    put(folder, "2025/a.txt", "9;x;\n")
    done = table.copy_into(
        folder, "csv", "2026/*.txt", delimiter=";", header=False, null_values=["NA", "-"], user_metadata="why"
    )
    assert done.files == ("2026/a.txt",)
    assert [row["note"] for row in table.to_arrow().sort_by("id").to_pylist()] == [None, "b"]
    info = table.history()[0]
    assert info["operation"] == "COPY INTO"
    assert info["operationParameters"] == {
        "source": str(folder),
        "format": "csv",
        "pattern": "2026/*.txt",
        "force": "false",
    }
    assert (info["operationMetrics"]["numLoadedFiles"], info["userMetadata"]) == ("1", "why")


def test_a_file_is_known_by_its_location_whatever_leads_to_it(table: Table, folder: Path, tmp_path: Path) -> None:
    put(folder, "sub/a b%.csv", csv(1))
    table.copy_into(folder)
    (tmp_path / "link").symlink_to(folder)
    assert table.copy_into(tmp_path / "link").files_skipped == 1
    assert table.copy_into(folder / "sub").files_skipped == 1
    put(folder, "sub/a b%.csv", csv(1, 2))
    assert table.copy_into(folder).files == ()
    assert ids(table) == [1]


def test_force_loads_again_and_a_dry_run_loads_nothing(table: Table, folder: Path) -> None:
    put(folder, "a.csv", csv(1))
    shown = table.copy_into(folder, dry_run=True)
    assert (shown.files, shown.dry_run, table.version) == (("a.csv",), True, 0)
    table.copy_into(folder)
    assert table.copy_into(folder, force=True).files == ("a.csv",)
    assert ids(table) == [1, 1]
    assert table.copy_into(folder).files == ()


def test_new_columns_are_refused_or_added(table: Table, folder: Path) -> None:
    put(folder, "a.csv", "id,more\n1,x\n")
    with pytest.raises(SchemaMismatchError, match="more"):
        table.copy_into(folder)
    table.copy_into(folder, schema_mode="merge")
    assert table.to_arrow().to_pylist() == [{"id": 1, "note": None, "day": None, "more": "x"}]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("b.csv", "id,note,day\nx,1,\n", r"b\.csv cannot be read as csv"),
        ("b.parquet", "no", r"b\.parquet cannot be read as parquet"),
        ("b.json", "{", r"b\.json cannot be read as json"),
        ("b.xyz", "1", r"b\.xyz' has no known suffix"),
        ("b.csv", "id;note\n1;2\n", r"separated by ';'.*delimiter=\";\""),
    ],
)
def test_a_file_that_cannot_be_read_is_named_and_nothing_is_loaded(
    table: Table, folder: Path, name: str, text: str, message: str
) -> None:
    put(folder, "a.csv", csv(1))
    put(folder, name, text)
    with pytest.raises(InvalidInputError, match=message):
        table.copy_into(folder)
    assert (table.version, ids(table)) == (0, [])
    assert not [*Path(table.uri).glob("*.parquet")]
    (folder / name).unlink()
    assert table.copy_into(folder).rows == 1


@pytest.mark.parametrize(
    "arguments",
    [{"format": "orc"}, {"pattern": 1}, {"delimiter": ";;"}, {"null_values": [1]}, {"schema_mode": "overwrite"}],
)
def test_arguments_that_mean_nothing_are_refused(table: Table, folder: Path, arguments: Any) -> None:
    put(folder, "a.csv", csv(1))
    with pytest.raises(InvalidInputError):
        table.copy_into(folder, **arguments)


def test_a_table_does_not_load_itself(table: Table) -> None:
    with pytest.raises(InvalidInputError, match="its own folder"):
        table.copy_into(table.uri)


def test_a_file_without_rows_is_loaded_once_too(table: Table, folder: Path) -> None:
    put(folder, "a.csv", "id,note,day\n")
    assert (table.copy_into(folder).files, table.copy_into(folder).files) == (("a.csv",), ())


def test_constraints_hold_for_loaded_rows(table: Table, folder: Path) -> None:
    table.add_constraint("positive", "id > 0")
    put(folder, "a.csv", csv(1).replace("1,n1", "-1,n1"))
    with pytest.raises(InvalidInputError, match="positive"):
        table.copy_into(folder)
    assert ids(table) == []


def test_identity_columns_number_loaded_rows(tmp_path: Path, folder: Path) -> None:
    table = Table.create(tmp_path / "t", "n bigint GENERATED ALWAYS AS IDENTITY, id bigint")
    table.append(pa.table({"id": [1]}))
    put(folder, "a.csv", "id\n2\n3\n")
    put(folder, "b.txt", "4\n")
    table.copy_into(folder, pattern="*.csv")
    table.copy_into(folder, "csv", "*.txt", header=False)
    numbers = [row["n"] for row in table.to_arrow().to_pylist()]
    assert len({*numbers}) == 4
    assert ids(table) == [1, 2, 3, 4]
    table.clone(tmp_path / "c")
    clone = Table.open(tmp_path / "c")
    clone.append(pa.table({"id": [5]}))
    clone.append(pa.table({"id": [6]}))
    last = [row["n"] for row in clone.to_arrow().to_pylist()]
    assert len({*last}) == 6
    table.clone(clone.uri, mode="replace")
    clone.append(pa.table({"id": [7]}))
    later = next(row["n"] for row in clone.to_arrow().to_pylist() if row["id"] == 7)
    assert later not in last  # no number is given twice, also not to another row of an earlier version


# --- exactly once ---------------------------------------------------------------------------------------------------


def test_two_loads_at_once_load_each_file_once(table: Table, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second load begins and ends between the first one's look at the table and its commit."""
    put(folder, "a.csv", csv(1))
    write, other = write_task, Table.open(table.uri)
    runs = 0

    def overtaken(*arguments: Any) -> Any:
        nonlocal runs
        runs += 1
        written = write(*arguments)
        if runs == 1:
            other.copy_into(folder)
            put(folder, "b.csv", csv(2))
        return written

    monkeypatch.setattr(command, "write_task", overtaken)
    assert table.copy_into(folder).files == ("b.csv",)
    assert (runs, ids(table)) == (3, [1, 2])
    live = {row["path"] for row in table.snapshot().files().to_pylist()}
    assert {path.name for path in Path(table.uri).glob("*.parquet")} == live  # the lost race left nothing


def test_many_loaders_in_threads_load_each_file_once(table: Table, folder: Path) -> None:
    for number in range(12):
        put(folder, f"{number}.csv", csv(number))
    errors: list[BaseException] = []

    def loads() -> None:
        try:
            Table.open(table.uri).copy_into(folder)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=loads) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert ids(table) == [*range(12)]


def test_a_load_goes_on_beside_appends_of_others(table: Table, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table.copy_into(_with(folder, "0.csv", csv(0)))
    write, other = write_task, Table.open(table.uri)

    def overtaken(*arguments: Any) -> Any:
        other.append(pa.table({"id": [50]}))
        return write(*arguments)

    monkeypatch.setattr(command, "write_task", overtaken)
    table.copy_into(_with(folder, "1.csv", csv(1)))
    assert ids(table) == [0, 1, 50]


def _with(folder: Path, name: str, text: str) -> Path:
    put(folder, name, text)
    return folder


def test_a_conflict_that_does_not_end_is_raised(table: Table, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(folder, "a.csv", csv(1))
    write, other, runs = write_task, Table.open(table.uri), iter(range(1000))

    def overtaken(*arguments: Any) -> Any:
        place = folder.parent / "others"
        put(place, f"{next(runs)}.csv", csv(9))
        monkeypatch.setattr(command, "write_task", write)
        other.copy_into(place)
        monkeypatch.setattr(command, "write_task", overtaken)
        return write(*arguments)

    monkeypatch.setattr(command, "write_task", overtaken)
    monkeypatch.setattr(command, "_ATTEMPTS_MAX", 3)
    with pytest.raises(ConcurrentTransactionError):
        table.copy_into(folder)
    assert 1 not in ids(table)


def test_a_load_whose_outcome_is_unknown_is_settled_by_running_it_again(
    table: Table, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(folder, "a.csv", csv(1))
    real = LocalLogStore.put_if_absent

    def unclear(self: LocalLogStore, name: str, body: Any) -> PutOutcome:
        found = real(self, name, body)
        return PutOutcome.NOT_DURABLE if name.endswith("1.json") and found is PutOutcome.WRITTEN else found

    monkeypatch.setattr(LocalLogStore, "put_if_absent", unclear)
    with pytest.raises(CommitStateUnknownError):
        table.copy_into(folder)
    monkeypatch.undo()
    assert Table.open(table.uri).copy_into(folder).files == ()
    assert ids(table) == [1]


def test_neither_checkpoints_nor_retention_forget_loaded_files(table: Table, folder: Path) -> None:
    table.set_properties({"delta.setTransactionRetentionDuration": "interval 0 seconds"})
    put(folder, "a.csv", csv(1))
    table.copy_into(folder)
    table.append(pa.table({"id": [5]}))
    table.create_checkpoint()
    for name in (Path(table.uri) / "_delta_log").glob("0*.json"):
        name.unlink()
    assert Table.open(table.uri).copy_into(folder).files == ()


def test_a_clone_knows_what_its_source_has_loaded(table: Table, folder: Path, tmp_path: Path) -> None:
    put(folder, "a.csv", csv(1))
    table.copy_into(folder)
    for name, shallow in (("deep", False), ("shallow", True)):
        table.clone(tmp_path / name, shallow=shallow)
        put(folder, "b.csv", csv(2))
        assert Table.open(tmp_path / name).copy_into(folder).files == ("b.csv",)
    table.clone(tmp_path / "deep", mode="replace")
    assert Table.open(tmp_path / "deep").copy_into(folder).files == ("b.csv",)


def test_deltalake_reads_a_table_that_notes_loaded_files(table: Table, folder: Path) -> None:
    done = table.copy_into(_with(folder, "a.csv", csv(1)))
    assert "domainMetadata" in done.notes[0]
    assert deltalake.DeltaTable(table.uri).to_pyarrow_table()["id"].to_pylist() == [1]


# --- the noted files ------------------------------------------------------------------------------------------------


def taken(domains: dict[str, DomainMetadata], *names: str) -> dict[str, DomainMetadata]:
    return {**domains, **{each.domain: each for each in LoadedFiles(domains).noting(names)}}


def test_files_are_noted_in_segments_of_which_only_the_last_grows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loaded_files, "SEGMENT_FILES", 3)
    names = [f"file:/in/{number}.csv" for number in range(8)]
    domains: dict[str, DomainMetadata] = {}
    for name in names[:4]:
        changed = [each.domain for each in LoadedFiles(domains).noting([name])]
        assert len(changed) == 1
        domains = taken(domains, name)
    domains = taken(domains, *names[4:], names[0])
    assert sorted(domains) == ["txlog.copyInto.0", "txlog.copyInto.1", "txlog.copyInto.2"]
    found = LoadedFiles(domains)
    assert len(found) == 8
    assert all(name in found for name in names)
    assert "file:/in/8.csv" not in found
    assert found.domains[-1] == "txlog.copyInto.3"
    assert not [*found.noting(names)]


def test_one_file_has_one_note_however_its_location_is_spelled() -> None:
    domains = taken({}, "s3a://bucket/a%20b.csv")
    assert "s3://bucket/a%20b.csv" in LoadedFiles(domains)
    assert "s3://bucket/a%20c.csv" not in LoadedFiles(domains)


@pytest.mark.parametrize("text", ["", "[]", '{"files": 1}', '{"files": "abc"}', "{}"])
def test_a_damaged_note_is_named(text: str) -> None:
    with pytest.raises(CorruptLogError, match=r"txlog\.copyInto\.0"):
        LoadedFiles({"txlog.copyInto.0": DomainMetadata("txlog.copyInto.0", text, removed=False)})


# --- the command ----------------------------------------------------------------------------------------------------


def test_the_command_loads_and_says_what(table: Table, folder: Path) -> None:
    def run(*arguments: str) -> str:
        done = CliRunner().invoke(app, ["copy-into", table.uri, str(folder), *arguments])
        assert done.exit_code == 0, done.output + done.stderr
        return " ".join(done.stdout.split())

    put(folder, "a.txt", "1|NA|2026-11-01\n")
    options = ["--format", "csv", "--delimiter", "|", "--no-header", "--null", "NA"]
    assert "would load 1 file" in run(*options, "--dry-run")
    assert "loaded 1 file, 16 B, 1 row, as version 1" in run(*options, "--user-metadata", "why")
    assert "nothing to load: 1 file loaded before" in run(*options)
    assert json.loads(run(*options, "--force", "--json"))["rows"] == 1
    put(folder, "b.csv", "id,more\n2,x\n")
    assert "b.csv loaded 1 file" in run("--pattern", "*.csv", "--merge-schema", "--source-option", "region=x")
    assert ids(table) == [1, 1, 2]


def test_a_folder_with_the_table_in_it_is_loaded_without_the_tables_own_files(tmp_path: Path) -> None:
    folder = tmp_path / "a folder"
    table = Table.create(folder / "a table", "id bigint, v string")
    table.append(pa.table({"id": [1], "v": ["mine"]}))
    put(folder, "2.csv", "id,v\n2,x\n")
    put(folder, "a table2.csv", "id,v\n3,y\n")
    assert table.copy_into(folder).files == ("2.csv", "a table2.csv")
    assert table.copy_into(folder).files == ()
    assert sorted(table.to_arrow()["id"].to_pylist()) == [1, 2, 3]


def test_a_table_does_not_load_a_folder_in_its_own(tmp_path: Path) -> None:
    table = Table.create(tmp_path / "t", "id bigint, day string", ["day"])
    table.append(pa.table({"id": [1], "day": ["a"]}))
    with pytest.raises(InvalidInputError, match="its own folder"):
        table.copy_into(tmp_path / "t" / "day=a")
    assert table.count() == 1
