"""Checkpoints of an application land once, and what became of a commit can be asked."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from small_table import SCHEMA, data_files, ids_of, rows_of

import txlog
from txlog.core.format.log_names import commit_name
from txlog.table import Table


def test_a_replay_of_the_last_checkpoint_is_dropped_without_reading_a_row(table: Table, tmp_path: Path) -> None:
    table.append(rows_of(1), app_id="app", checkpoint_id=5)

    def never() -> Iterator[pa.RecordBatch]:
        raise AssertionError("a row of a replay was read")
        yield

    reader = pa.RecordBatchReader.from_batches(SCHEMA, never())
    replay = table.append(reader, app_id="app", checkpoint_id=5)
    assert (replay.outcome, replay.version) == ("already_committed", 1)
    assert ids_of(table) == [1]
    assert len(data_files(tmp_path / "t")) == 1


def test_an_older_checkpoint_is_dropped_only_where_the_log_proves_it(table: Table) -> None:
    for checkpoint_id in (1, 2, 4):
        table.append(rows_of(checkpoint_id), app_id="app", checkpoint_id=checkpoint_id)
    assert table.append(rows_of(1), app_id="app", checkpoint_id=1).version == 1
    with pytest.raises(txlog.InvalidInputError, match="checkpoint 3 of 'app'"):
        table.append(rows_of(3), app_id="app", checkpoint_id=3)
    assert ids_of(table) == [1, 2, 4]


def test_an_older_checkpoint_whose_commit_was_cleaned_up_is_never_dropped_silently(
    table: Table, tmp_path: Path
) -> None:
    for checkpoint_id in (1, 2, 3):
        table.append(rows_of(checkpoint_id), app_id="app", checkpoint_id=checkpoint_id)
    table.create_checkpoint()
    for version in (0, 1, 2):
        (tmp_path / "t" / "_delta_log" / f"{version:020}.json").unlink()
    reopened = Table.open(tmp_path / "t")
    with pytest.raises(txlog.InvalidInputError, match="no retained commit"):
        reopened.append(rows_of(1), app_id="app", checkpoint_id=1)
    assert reopened.append(rows_of(3), app_id="app", checkpoint_id=3).outcome == "already_committed"
    assert reopened.append(rows_of(4), app_id="app", checkpoint_id=4).version == 4


def test_other_work_under_the_last_checkpoint_id_is_refused_also_after_its_commit_was_cleaned_up(
    table: Table, tmp_path: Path
) -> None:
    """Its ``txn`` is in a checkpoint of the log and says nothing about the input: dropped, the rows would be lost."""
    table.append(rows_of(1), app_id="app", checkpoint_id=0, fingerprint="a")
    table.append(rows_of(2))
    table.create_checkpoint()
    for version in (0, 1):
        (tmp_path / "t" / "_delta_log" / commit_name(version)).unlink()
    for handle in (table, Table.open(table.uri)):
        for fingerprint in ("a", "b"):
            with pytest.raises(txlog.InvalidInputError, match=r"'app' is the last .*run it again without fingerprint"):
                handle.append(rows_of(3), app_id="app", checkpoint_id=0, fingerprint=fingerprint)
            with pytest.raises(txlog.InvalidInputError, match="nothing shows whether"):
                handle.delete("id = 1", app_id="app", checkpoint_id=0, fingerprint=fingerprint)
        dropped = handle.append(rows_of(1), app_id="app", checkpoint_id=0)
        assert (dropped.outcome, dropped.version) == ("already_committed", None)
        assert ids_of(handle) == [1, 2]
    assert len(data_files(tmp_path / "t")) == 2
    assert table.append(rows_of(3), app_id="app", checkpoint_id=1, fingerprint="b").outcome == "committed"


def test_a_put_that_arrived_where_the_log_was_cleaned_up_proves_no_older_checkpoint(table: Table) -> None:
    log = Path(table.uri) / "_delta_log"
    other = Table.create(f"{table.uri}-other", table.snapshot().schema)
    other.append(rows_of(0))
    other.append(rows_of(1), app_id="app", checkpoint_id=1)  # lost its race to the winner of v2, and was refused
    for checkpoint_id in (None, None, 2):
        table.append(rows_of(2), app_id=checkpoint_id and "app", checkpoint_id=checkpoint_id)
    table.create_checkpoint()
    for version in (0, 1, 2):
        (log / commit_name(version)).unlink()
    (log / commit_name(2)).write_bytes((Path(other.uri) / "_delta_log" / commit_name(2)).read_bytes())
    for handle in (table, Table.open(table.uri)):
        with pytest.raises(txlog.InvalidInputError, match="no retained commit"):
            handle.append(rows_of(1), app_id="app", checkpoint_id=1)


def test_other_work_under_the_same_checkpoint_id_is_detected_by_its_fingerprint(table: Table) -> None:
    table.append(rows_of(1), app_id="app", checkpoint_id=1, fingerprint="offsets 0-10")
    same = table.append(rows_of(1), app_id="app", checkpoint_id=1, fingerprint="offsets 0-10")
    assert same.outcome == "already_committed"
    with pytest.raises(txlog.InvalidInputError, match="offsets 0-12"):
        table.append(rows_of(1), app_id="app", checkpoint_id=1, fingerprint="offsets 0-12")
    assert ids_of(table) == [1]


def test_checkpoint_ids_of_different_applications_are_independent(table: Table) -> None:
    table.append(rows_of(1), app_id="a", checkpoint_id=9)
    assert table.append(rows_of(2), app_id="b", checkpoint_id=1).outcome == "committed"
    assert table.snapshot().transaction_version("a") == 9
    assert table.snapshot().transaction_version("b") == 1


def test_an_overwrite_with_the_same_checkpoint_is_committed_once(table: Table) -> None:
    table.append(rows_of(1))
    table.overwrite(rows_of(2), app_id="app", checkpoint_id=1)
    table.append(rows_of(3))
    assert table.overwrite(rows_of(2), app_id="app", checkpoint_id=1).outcome == "already_committed"
    assert ids_of(table) == [2, 3]


def test_resolve_reports_what_landed_and_fences_what_did_not(table: Table) -> None:
    landed = table.append(rows_of(1))
    assert table.resolve(landed.txn_id, 1) is True
    assert table.resolve("somebody else", 1) is False
    assert table.resolve("still under way", 2) is False
    assert table.snapshot().version == 2, "an empty commit has taken its place"
    assert table.history(1)[0]["operation"] == "FENCE"
    with pytest.raises(txlog.InvalidInputError, match="v9"):
        table.resolve("from the future", 9)
    assert table.append(rows_of(2)).version == 3
    assert ids_of(table) == [1, 2]


def test_a_put_that_arrived_where_the_log_was_cleaned_up_is_not_acknowledged(table: Table) -> None:
    late = table.append(rows_of(1))
    for number in (2, 3):
        table.append(rows_of(number))
    table.create_checkpoint()
    log = Path(table.uri) / "_delta_log"
    body = (log / commit_name(1)).read_bytes()
    for version in (0, 1, 2):
        (log / commit_name(version)).unlink()
    (log / commit_name(1)).write_bytes(body)
    for handle in (table, Table.open(table.uri)):
        with pytest.raises(txlog.NotFoundError, match="so it is unknown whether"):
            handle.resolve(late.txn_id, 1)
