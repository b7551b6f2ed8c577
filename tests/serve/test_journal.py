"""The journal's files: what a crash, a full disk or damage leaves in them."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pyarrow as pa
import pytest

from tests.serve.services import create, ids, rows, serving, terms
from txlog.errors import CorruptLogError, InvalidInputError
from txlog.serve import journal as module
from txlog.serve.batches import Batch, How
from txlog.serve.journal import Journal


def keep(journal: Journal, *batches: pa.RecordBatch) -> list[int]:
    """Keep them, and wait until each is synced."""
    places = []
    for each in batches:
        kept = threading.Event()
        batch = Batch(each, How(), "x", len(places))
        batch.pack()
        journal.keep("events", batch, kept.set)
        assert kept.wait(30)
        assert batch.place is not None
        places.append(batch.place)
    return places


def left(folder: Path) -> list[list[int]]:
    journal = Journal(folder)
    found = [each["id"].to_pylist() for _, each in journal.left()]
    journal.close()
    return found


def segment(folder: Path) -> Path:
    return max(folder.glob("*.log"), key=lambda path: path.stat().st_size)


def test_batches_come_back_in_their_order_until_they_are_done(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    places = keep(journal, rows(1), rows(2, 3), rows())
    journal.close()
    again = Journal(tmp_path)
    found = [(kept.place, kept.table, kept.stream, kept.number, each["id"].to_pylist()) for kept, each in again.left()]
    assert found == [
        (place, "events", "x", number, content)
        for number, (place, content) in enumerate(zip(places, ([1], [2, 3], []), strict=True))
    ]
    again.done(places)
    more = keep(again, rows(4))
    again.close()
    assert more[0] > places[-1]
    assert left(tmp_path) == [[4]]


def test_no_place_is_given_twice_after_all_batches_are_done(tmp_path: Path) -> None:
    """A table keeps the last place that it has, and takes what is not after it for a replay."""
    given: list[int] = []
    for _ in range(3):
        journal = Journal(tmp_path)
        assert list(journal.left()) == []
        given += keep(journal, rows(1), rows(2))
        journal.done(given)
        journal.close()
    assert given == sorted({*given})
    assert [path.stat().st_size for path in tmp_path.glob("*.log")] == [0]


def test_full_segments_are_deleted_when_their_batches_are_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SEGMENT_BYTES", 10)
    journal = Journal(tmp_path)
    places = keep(journal, *(rows(number) for number in range(5)))
    assert len([*tmp_path.glob("*.log")]) == 5
    journal.done(places[:3])
    assert len([*tmp_path.glob("*.log")]) == 2
    journal.close()
    assert left(tmp_path) == [[3], [4]]


@pytest.mark.parametrize("cut", [1, 20, 100])
def test_a_torn_end_is_what_nobody_was_told_of(tmp_path: Path, cut: int) -> None:
    journal = Journal(tmp_path)
    keep(journal, rows(1), rows(2))
    journal.close()
    path = segment(tmp_path)
    os.truncate(path, path.stat().st_size - cut)
    assert left(tmp_path) == [[1]]


def test_what_follows_a_segment_that_is_only_a_torn_record_can_be_read(tmp_path: Path) -> None:
    Journal(tmp_path).close()
    (only,) = tmp_path.glob("*.log")
    only.write_bytes(b"TXJ1 half of a record")
    journal = Journal(tmp_path)
    keep(journal, rows(1))
    journal.close()
    assert left(tmp_path) == [[1]]


def test_damage_before_another_record_is_told_and_nothing_is_taken(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    keep(journal, rows(1), rows(2), rows(3))
    journal.close()
    path = segment(tmp_path)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(CorruptLogError, match=r"damaged at byte .*Restore the file"):
        Journal(tmp_path)


def test_a_journal_is_open_in_one_process_at_a_time(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    with pytest.raises(InvalidInputError, match="another service has this journal open"):
        Journal(tmp_path)
    journal.close()
    Journal(tmp_path).close()


def test_while_the_disk_is_full_clients_wait_for_the_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    table = create(tmp_path)
    with serving(tmp_path, journal=tmp_path / "journal") as service:
        service.put(terms(answer="durable"), rows(1)).result()
        synced, failed = os.fsync, threading.Event()

        def full(descriptor: int) -> None:
            failed.set()
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as patched:
            patched.setattr(module.os, "fsync", full)
            waiting = service.put(terms(answer="durable"), rows(2))
            assert failed.wait(30)
        assert module.os.fsync is synced
        assert service.put(terms(), rows(3)).result().outcome == "committed"
        assert waiting.result().outcome == "committed"
        assert service.put(terms(answer="durable"), rows(4)).result().outcome == "durable"
    assert "clients wait for their tables" in caplog.text
    assert ids(table) == [1, 2, 3, 4]


def test_a_service_whose_disk_has_failed_stops_as_another_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    table = create(tmp_path)

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    with serving(tmp_path, journal=tmp_path / "journal") as service, monkeypatch.context() as patched:
        patched.setattr(module.os, "fsync", full)
        waiting = service.put(terms(answer="durable"), rows(1))
        while "clients wait for their tables" not in caplog.text:
            pass
        patched.undo()
        service.close()
        assert waiting.result().outcome == "committed"
    assert ids(table) == [1]
