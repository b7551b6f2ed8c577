"""What `txlog serve` promises for batches, whichever door they come by: one commit for many, each batch once, in the
table or in the journal when it is answered. The tables are read by deltalake."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest

import txlog
from tests.serve.services import PATIENT, create, ids, killed, rows, serving, terms
from txlog.errors import InvalidInputError, SchemaMismatchError, StorageError, TableNotFoundError
from txlog.serve.batches import Batch, BusyError, How, StoppingError, StreamOrderError, TooLargeError
from txlog.serve.journal import Journal
from txlog.serve.landing import Landing
from txlog.serve.service import Limits, Service


def test_a_batch_is_in_the_table_when_it_is_answered(tmp_path: Path) -> None:
    table = create(tmp_path)
    with serving(tmp_path) as service:
        answer = service.put(terms(), rows(1, 2)).result()
        assert (answer.outcome, answer.version, answer.rows) == ("committed", 1, 2)
        assert ids(table) == [1, 2]


def test_all_rows_that_wait_become_one_file_and_one_version(tmp_path: Path) -> None:
    table = create(tmp_path)
    with serving(tmp_path, journal=tmp_path / "journal") as service:
        waiting = [service.put(terms(answer="durable"), rows(number)) for number in range(10)]
        assert {each.result().outcome for each in waiting} == {"durable"}
        assert ids(table) == []
        assert service.put(terms(), rows(10)).result().version == 1
        assert ids(table) == [*range(11)]
    assert table.snapshot().num_files == 1
    assert table.snapshot().version == 1


def test_rows_of_clients_with_other_columns_and_types_fit_one_file(tmp_path: Path) -> None:
    table = create(tmp_path)
    with serving(tmp_path, journal=tmp_path / "journal") as service:
        service.put(terms(answer="durable"), pa.record_batch({"id": pa.array([1], pa.int16())})).result()
        service.put(terms(answer="durable"), pa.record_batch({"S": ["x"], "ID": [2]})).result()
        service.put(terms(), rows(3)).result()
    assert ids(table) == [1, 2, 3]
    assert table.snapshot().num_files == 1


def test_a_partitioned_table_gets_a_file_for_each_partition(tmp_path: Path) -> None:
    table = create(tmp_path, partition_by="s")
    with serving(tmp_path) as service:
        service.put(terms(), rows(1, 2, 3)).result()
    assert ids(table) == [1, 2, 3]
    assert table.snapshot().num_files == 3


def test_columns_that_the_table_computes_are_computed(tmp_path: Path) -> None:
    table = create(tmp_path, columns="id bigint, twice bigint generated always as (id * 2)")
    with serving(tmp_path) as service:
        service.put(terms(), pa.record_batch({"id": [1, 2]})).result()
    assert sorted(table.to_arrow()["twice"].to_pylist()) == [2, 4]


# --- each batch once ------------------------------------------------------------------------------------------------


def test_a_batch_that_is_sent_again_is_in_the_table_once(tmp_path: Path) -> None:
    table = create(tmp_path)
    till = terms(stream="till-7")
    with serving(tmp_path) as service:
        assert service.put(till, rows(1), 0).result().outcome == "committed"
        assert service.put(till, rows(1), 0).result().outcome == "already_committed"
        assert service.put(till, rows(2), 1).result().outcome == "committed"
        assert service.position("events", "till-7") == (1, 1)
    with serving(tmp_path) as another:
        assert another.put(till, rows(1), 0).result().outcome == "already_committed"
        assert another.put(till, rows(3), 2).result().outcome == "committed"
    assert ids(table) == [1, 2, 3]
    assert table.snapshot().transaction_version("serve/till-7") == 2


def test_services_that_do_not_know_each_other_land_each_batch_once(tmp_path: Path) -> None:
    table = create(tmp_path)
    till = terms(stream="till-7")
    with serving(tmp_path) as one, serving(tmp_path) as other:
        one.put(till, rows(0), 0).result()
        assert other.put(till, rows(0), 0).result().outcome == "already_committed"
        other.put(till, rows(1), 1).result()
        assert one.put(till, rows(1), 1).result().outcome == "already_committed"  # found when it is committed
        assert one.put(till, rows(2), 2).result().outcome == "committed"
        assert other.put(till, rows(3), 3).result().outcome == "committed"  # it looks, as batch 2 is not its own
    assert ids(table) == [0, 1, 2, 3]


def test_two_services_that_get_every_batch_at_once_land_each_once(tmp_path: Path) -> None:
    table = create(tmp_path)

    def send(service: Service) -> None:
        for number in range(15):
            service.put(terms(stream="both"), rows(number), number).result()

    with serving(tmp_path) as one, serving(tmp_path) as other:
        threads = [threading.Thread(target=send, args=(each,)) for each in (one, other)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
    assert ids(table) == [*range(15)]


def test_rows_without_a_stream_are_not_lost_where_another_service_has_the_streams_of_their_commit(
    tmp_path: Path,
) -> None:
    """To the log, a commit whose applications another one has set to the same numbers is a replay."""
    table = create(tmp_path)
    outcomes: dict[Batch, Any] = {}

    def settle(found: Any) -> None:
        for batch, outcome in found:
            outcomes[batch], batch.is_settled = outcome, True

    landing = Landing(txlog.Table.open(table.uri), None, 100, settle)
    with serving(tmp_path) as other:
        other.put(terms(stream="x"), rows(0), 0).result()
    batches = [Batch(rows(0), How(), "x", 0), Batch(rows(1), How(), None, None)]
    landing.land(batches)
    assert [outcomes[each].outcome for each in batches] == ["already_committed", "committed"]
    assert ids(table) == [0, 1]


def test_a_batch_that_waits_and_comes_again_gets_the_same_answer(tmp_path: Path) -> None:
    table = create(tmp_path)
    till = terms(stream="till-7", answer="durable")
    with serving(tmp_path, journal=tmp_path / "journal") as service:
        first, again = service.put(till, rows(1), 0), service.put(till, rows(1), 0)
        assert first is again
        assert service.position("events", "till-7") == (-1, 0)
    assert ids(table) == [1]


def test_a_batch_that_waits_in_the_journal_is_committed_for_who_asks_for_that(tmp_path: Path) -> None:
    table = create(tmp_path)
    with killed(tmp_path, tmp_path / "journal") as service:
        service.put(terms(stream="x", answer="durable"), rows(0), 0).result()
        assert service.put(terms(stream="x"), rows(0), 0).result().outcome == "committed"
        assert ids(table) == [0]
        service.put(terms(stream="x", answer="durable"), rows(1), 1).result()
    with serving(tmp_path, journal=tmp_path / "journal") as service:
        assert service.put(terms(stream="x"), rows(1), 1).result().outcome in ("committed", "already_committed")
        assert ids(table) == [0, 1]


def test_a_gap_in_a_stream_is_refused_with_the_number_that_is_expected(tmp_path: Path) -> None:
    create(tmp_path)
    with serving(tmp_path) as service:
        with pytest.raises(StreamOrderError, match=r"batch 1 of stream .x. came.* send batch 0") as refused:
            service.put(terms(stream="x"), rows(1), 1)
        assert refused.value.expected == 0
        service.put(terms(stream="x"), rows(1), 0).result()
        with pytest.raises(StreamOrderError, match="stands at batch 0: send batch 1"):
            service.put(terms(stream="x"), rows(1), 2)


def test_after_a_refused_batch_its_number_is_free_and_the_next_one_is_refused(tmp_path: Path) -> None:
    table = create(tmp_path, columns="id bigint not null, s string")
    with serving(tmp_path) as service:
        with pytest.raises(InvalidInputError, match="column id is null"):
            service.put(terms(stream="x"), rows(1, None), 0)
        with pytest.raises(StreamOrderError):
            service.put(terms(stream="x"), rows(2), 1)
        service.put(terms(stream="x"), rows(1), 0).result()
    assert ids(table) == [1]


def test_a_table_takes_so_many_streams_unless_it_forgets_idle_ones(tmp_path: Path) -> None:
    table = create(tmp_path)
    service = Service(str(tmp_path), pace=msgspec.structs.replace(PATIENT, streams_max=2))
    for name in "ab":
        service.put(terms(stream=name), rows(1), 0).result()
    with pytest.raises(InvalidInputError, match="has 2 streams, and keeps a record of each for good"):
        service.put(terms(stream="c"), rows(1), 0).result()
    service.put(terms(stream="a"), rows(2), 1).result()
    table.set_properties({"delta.setTransactionRetentionDuration": "interval 30 days"})
    service.put(terms(stream="c"), rows(3), 0).result()
    service.close()
    assert ids(table) == [1, 1, 2, 3]


# --- the journal ----------------------------------------------------------------------------------------------------


def test_what_was_answered_as_durable_is_in_the_table_once_after_a_crash(tmp_path: Path) -> None:
    table = create(tmp_path)
    journal = tmp_path / "journal"
    with killed(tmp_path, journal) as service:
        for number in range(5):
            service.put(terms(answer="durable", stream="x"), rows(number), number).result()
        service.put(terms(answer="durable"), rows(5)).result()
    assert ids(table) == []
    with serving(tmp_path, journal=journal) as service:
        again = service.put(terms(answer="durable", stream="x"), rows(4), 4)
        assert again.result().outcome in ("durable", "already_committed")
        assert service.position("events", "x")[1] == 4
        service.put(terms(stream="x"), rows(6), 5).result()
    with serving(tmp_path, journal=journal):
        pass
    assert ids(table) == [*range(7)]
    assert not [path for path in journal.glob("*.log") if path.stat().st_size]


def test_what_was_committed_before_the_crash_is_not_committed_again(tmp_path: Path) -> None:
    table = create(tmp_path)
    journal = tmp_path / "journal"
    with killed(tmp_path, journal) as service:
        service.put(terms(answer="durable"), rows(1)).result()
        kept = {path.name: path.read_bytes() for path in journal.glob("*.log")}
        service.put(terms(), rows(2)).result()
        service.put(terms(answer="durable"), rows(3)).result()
    for name, content in kept.items():  # a record of a batch that is in the table, as a crash leaves it
        assert (journal / name).read_bytes().startswith(content)
    with serving(tmp_path, journal=journal):
        pass
    assert ids(table) == [1, 2, 3]


def test_a_batch_goes_to_another_service_while_the_one_with_the_journal_is_away(tmp_path: Path) -> None:
    table = create(tmp_path)
    with killed(tmp_path, tmp_path / "journal") as service:
        service.put(terms(answer="durable", stream="x"), rows(0), 0).result()
    with serving(tmp_path) as other:
        with pytest.raises(StreamOrderError, match="they are in its journal"):
            other.put(terms(stream="x"), rows(1), 1)
        other.put(terms(stream="x"), rows(0), 0).result()
        other.put(terms(stream="x"), rows(1), 1).result()
    with serving(tmp_path, journal=tmp_path / "journal"):
        pass
    assert ids(table) == [0, 1]


def test_a_batch_is_not_taken_for_one_that_landed_before_a_crash_and_whose_record_was_not_synced(
    tmp_path: Path,
) -> None:
    table, journal = create(tmp_path), tmp_path / "journal"
    with serving(tmp_path, journal=journal) as service:
        for number in range(3):
            service.put(terms(answer="durable", stream="x"), rows(number), number).result()
    for path in journal.glob("*.log"):
        path.unlink()
    with serving(tmp_path, journal=journal) as service:
        assert service.put(terms(answer="durable", stream="x"), rows(3), 3).result().outcome == "durable"
    assert ids(table) == [0, 1, 2, 3]


def test_a_durable_batch_that_the_table_refuses_by_now_is_set_aside_and_told(tmp_path: Path) -> None:
    table = create(tmp_path)
    with serving(tmp_path, journal=tmp_path / "journal") as service:
        service.put(terms(answer="durable"), rows(1)).result()
        service.put(terms(answer="durable"), rows(-1)).result()
        table.add_constraint("positive", "id > 0")
        service.put(terms(), rows(2)).result()
        assert service.health()["refused_files"] == 1
    assert ids(table) == [1, 2]
    with pa.ipc.open_file(str(next((tmp_path / "journal").glob("refused-*")))) as aside:
        assert aside.read_all()["id"].to_pylist() == [-1]
        assert "positive" in aside.schema.metadata[b"reason"].decode()


def test_a_durable_answer_needs_a_journal(tmp_path: Path) -> None:
    create(tmp_path)
    with serving(tmp_path) as service, pytest.raises(InvalidInputError, match="start it with --journal"):
        service.put(terms(answer="durable"), rows(1))


def test_a_journal_larger_than_the_room_is_committed_piece_by_piece_at_the_start(tmp_path: Path) -> None:
    table = create(tmp_path)
    with killed(tmp_path, tmp_path / "journal") as service:
        for number in range(10):
            service.put(terms(answer="durable"), rows(number)).result()
    with serving(tmp_path, journal=tmp_path / "journal", limits=Limits(waiting_bytes=2500)):
        pass
    assert ids(table) == [*range(10)]


def test_while_the_store_fails_waiting_clients_are_told_and_the_journal_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = create(tmp_path)

    def fail(*_: object, **__: object) -> None:
        raise StorageError("the store does not answer")

    with serving(tmp_path, journal=tmp_path / "journal") as service:
        service.put(terms(answer="durable", stream="x"), rows(0), 0).result()
        with monkeypatch.context() as failing:
            failing.setattr(txlog.Table, "transaction", fail)
            with pytest.raises(StorageError, match="does not answer"):
                service.put(terms(stream="x"), rows(1), 1).result()
            health = service.health()
            assert (health["status"], health["tables"]["events"]["error"]) == ("failing", "StorageError")
            assert service.position("events", "x") == (-1, 0)
        assert service.put(terms(stream="x"), rows(1), 1).result().outcome == "committed"
        assert service.health()["status"] == "ok"
    assert ids(table) == [0, 1]


def test_a_service_that_stops_while_the_store_fails_leaves_no_client_without_an_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = create(tmp_path)
    begun, go_on = threading.Event(), threading.Event()

    def fail(*_: object, **__: object) -> None:
        begun.set()
        go_on.wait(30)
        raise StorageError("the store does not answer")

    service = Service(str(tmp_path), pace=PATIENT, journal=Journal(tmp_path / "journal"))
    with monkeypatch.context() as failing:
        failing.setattr(txlog.Table, "transaction", fail)
        durable = service.put(terms(answer="durable"), rows(1))
        first = service.put(terms(), rows(2))
        assert begun.wait(30)
        other = service.put(terms(mode="upsert", keys="id"), rows(3))  # not of the same commit
        stopping = threading.Thread(target=service.close)
        stopping.start()
        while service.health()["status"] != "stopping":
            pass
        go_on.set()
        stopping.join(30)
    assert durable.result(0).outcome == "durable"
    for each in (first, other):
        assert isinstance(each.exception(0), StorageError | StoppingError)
    with serving(tmp_path, journal=tmp_path / "journal"):
        pass
    assert ids(table) == [1]


# --- changes --------------------------------------------------------------------------------------------------------


def changes(*kinds: tuple[str, int, str | None, int]) -> pa.RecordBatch:
    names = ("op", "id", "s", "at")
    types = (pa.string(), pa.int64(), pa.string(), pa.int64())
    columns = zip(*kinds, strict=True)
    return pa.record_batch({name: pa.array(each, kind) for name, each, kind in zip(names, columns, types, strict=True)})


def test_upserts_and_deletes_of_many_clients_are_one_version_in_their_order(tmp_path: Path) -> None:
    table = create(tmp_path)
    how = {"mode": "upsert", "keys": "id", "row_kind": "op", "sequence_by": "at"}
    with serving(tmp_path, journal=tmp_path / "journal") as service:
        service.put(terms(answer="durable", **how), changes(("c", 1, "old", 1), ("c", 2, "b", 1), ("c", 3, "c", 1)))
        service.put(terms(answer="durable", **how), changes(("u", 1, "new", 3), ("d", 2, None, 2)))
        service.put(terms(**how), changes(("u", 1, "late", 2))).result()
    assert table.snapshot().version == 1
    assert sorted(table.to_arrow().to_pylist(), key=str) == [{"id": 1, "s": "new"}, {"id": 3, "s": "c"}]


@pytest.mark.parametrize("stream", ["x", None])
def test_batches_that_do_not_fit_one_commit_land_in_their_order(tmp_path: Path, stream: str | None) -> None:
    """The journal is as a stream: its last place in the table says that all before it are there."""
    table = create(tmp_path)
    upsert = {"mode": "upsert", "keys": "id"}
    with serving(tmp_path, journal=tmp_path / "journal") as service:
        for number, how in enumerate(({}, upsert, {}, upsert)):
            batch = rows(number // 2).set_column(1, "s", pa.array([str(number)]))
            service.put(terms(stream=stream, answer="durable", **how), batch, stream and number).result()
        service.put(terms(), rows(9)).result()
    assert service.health()["refused_files"] == 0
    found = sorted((row["id"], row["s"]) for row in table.to_arrow().to_pylist())
    assert found == [(0, "1"), (1, "3"), (9, "s9")]


def test_changes_with_a_null_key_or_an_unknown_kind_are_refused_with_their_row(tmp_path: Path) -> None:
    create(tmp_path)
    how = {"mode": "upsert", "keys": "id", "row_kind": "op"}
    with serving(tmp_path) as service:
        with pytest.raises(InvalidInputError, match=r"column id is null \(row 1\)"):
            service.put(terms(**how), changes(("c", 1, "a", 1), ("c", None, "a", 1)).drop_columns(["at"]))
        with pytest.raises(InvalidInputError, match="sideways"):
            service.put(terms(**how), changes(("sideways", 1, "a", 1)).drop_columns(["at"]))
        with pytest.raises(InvalidInputError, match="no column 'key'"):
            service.put(terms(mode="upsert", keys="key"), rows(1))


# --- bad rows and schemas -------------------------------------------------------------------------------------------


def test_a_batch_lands_whole_or_is_refused_with_the_row_the_column_and_the_reason(tmp_path: Path) -> None:
    table = create(tmp_path, columns="id tinyint, s string")
    with serving(tmp_path) as service:
        with pytest.raises(InvalidInputError, match=r"column id .*300.*row 2"):
            service.put(terms(), rows(1, 2, 300))
        with pytest.raises(SchemaMismatchError, match="nonsense"):
            service.put(terms(), pa.record_batch({"nonsense": [1]}))
        with pytest.raises(TableNotFoundError):
            service.put(terms("nothing"), rows(1))
    assert table.snapshot().version == 0


def test_bad_rows_go_to_the_table_beside_and_the_others_land(tmp_path: Path) -> None:
    table = create(tmp_path, columns="id tinyint, s string")
    with serving(tmp_path) as service:
        answer = service.put(terms(quarantine="bad", stream="x"), rows(1, 300, 3), 0).result()
        assert (answer.rows, answer.quarantined) == (2, 1)
        assert service.put(terms(quarantine="bad", stream="x"), rows(1, 300, 3), 0).result().rows == 2
        service.put(terms(quarantine="bad", stream="x"), rows(4), 1).result()
        service.put(terms(quarantine="bad", stream="x"), rows(500), 2).result()
    assert ids(table) == [1, 3, 4]
    bad = txlog.Catalog(tmp_path).table("bad").to_arrow(columns=["source", "stream", "batch", "row", "content"])
    assert sorted(bad.to_pylist(), key=lambda row: row["batch"]) == [
        {"source": "events", "stream": "x", "batch": 0, "row": 1, "content": '{"id":300,"s":"s300"}'},
        {"source": "events", "stream": "x", "batch": 2, "row": 0, "content": '{"id":500,"s":"s500"}'},
    ]


def test_new_columns_are_added_if_the_client_asks_and_refused_if_not(tmp_path: Path) -> None:
    table = create(tmp_path)
    more = pa.record_batch({"id": [1], "price": [2.5]})
    with serving(tmp_path) as service:
        with pytest.raises(SchemaMismatchError, match="price"):
            service.put(terms(), more)
        service.put(terms(schema_mode="merge"), more).result()
        service.put(terms(), rows(2)).result()
        table.add_columns("note string")  # by somebody else
        service.put(terms(), pa.record_batch({"id": [3], "note": ["n"]})).result()
    assert ids(table) == [1, 2, 3]
    assert table.snapshot().schema.names == ["id", "s", "price", "note"]


def test_another_client_s_refused_change_does_not_take_the_rows_beside_it(tmp_path: Path) -> None:
    """A rule that came after the rows were checked refuses only those that break it."""
    table = create(tmp_path)
    with serving(tmp_path, journal=tmp_path / "journal") as service:
        for number in (1, -2, 3, -4, 5):
            service.put(terms(answer="durable", stream=f"s{number}"), rows(number), 0).result()
        table.add_constraint("positive", "id > 0")
        service.put(terms(), rows(6)).result()
    assert ids(table) == [1, 3, 5, 6]


def test_damaged_arrow_memory_is_refused(tmp_path: Path) -> None:
    create(tmp_path)
    offsets = pa.array([0, 1 << 20, 3], pa.int32()).buffers()[1]  # what a cheap check does not see
    text = pa.Array.from_buffers(pa.string(), 2, [None, offsets, pa.py_buffer(b"abc")])
    with serving(tmp_path) as service, pytest.raises(InvalidInputError, match="the Arrow data is damaged"):
        service.put(terms(), pa.RecordBatch.from_arrays([text], names=["s"]))


# --- bounds and the end ---------------------------------------------------------------------------------------------


def test_a_client_is_told_to_come_back_while_too_much_waits(tmp_path: Path) -> None:
    table = create(tmp_path)
    limits = Limits(waiting_bytes=3000, wait_s=0)
    with serving(tmp_path, journal=tmp_path / "journal", limits=limits) as service:
        service.put(terms(answer="durable"), rows(1)).result()
        service.put(terms(answer="durable"), rows(2)).result()
        with pytest.raises(BusyError, match="send the batch again in a moment"):
            service.put(terms(answer="durable"), rows(3))
    assert service.room.used_bytes == 0
    assert ids(table) == [1, 2]


def test_a_batch_that_is_too_large_is_refused(tmp_path: Path) -> None:
    create(tmp_path)
    with serving(tmp_path, limits=Limits(batch_bytes=100)) as service, pytest.raises(TooLargeError, match="100"):
        service.put(terms(), rows(*range(100)))


def test_a_service_that_stops_commits_what_it_took_and_takes_no_more(tmp_path: Path) -> None:
    table = create(tmp_path)
    with serving(tmp_path, journal=tmp_path / "journal") as service:
        service.put(terms(answer="durable"), rows(1)).result()
    assert ids(table) == [1]
    with pytest.raises(BusyError, match="stopping"):
        service.put(terms(), rows(2))
    assert service.health()["status"] == "stopping"
    assert service.room.used_bytes == 0


def test_a_table_goes_by_one_name_however_it_is_spelled(tmp_path: Path) -> None:
    table = create(tmp_path)
    with serving(tmp_path) as service:
        for name in ("events", "EVENTS", "default.Events"):
            service.put(terms(name), rows(1)).result()
        assert [*service.health()["tables"]] == ["events"]
    assert ids(table) == [1, 1, 1]


def test_an_address_that_is_neither_a_table_nor_a_catalog_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="gopher"):
        Service("gopher://somewhere/tables")


def test_one_table_can_be_served_by_its_location(tmp_path: Path) -> None:
    table = txlog.Table.create(tmp_path / "orders", "id bigint, s string")
    with serving(tmp_path / "orders") as service:
        service.put(terms("orders"), rows(1)).result()
        assert service.tables() == ["orders"]
        with pytest.raises(TableNotFoundError, match="has one table, 'orders'"):
            service.put(terms("events"), rows(1))
    assert ids(table) == [1]


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"mode": "upsert"}, "needs keys"),
        ({"keys": "id"}, "keys is not for mode=append"),
        ({"row_kind": "op"}, "row_kind is not for mode=append"),
        ({"mode": "upsert", "keys": "id", "quarantine": "bad"}, "quarantine is not for mode=upsert"),
        ({"mode": "replace"}, "mode"),
        ({"answer": "now"}, "answer"),
        ({"stream": ""}, "1 to 200"),
        ({"stream": "x" * 201}, "1 to 200"),
        ({"quarantine": "events"}, "must name another table"),
        ({"colour": "red"}, "unknown 'colour'"),
    ],
)
def test_terms_that_make_no_sense_are_refused(given: dict[str, str], problem: str) -> None:
    with pytest.raises(InvalidInputError, match=problem):
        terms(**given)


@pytest.mark.parametrize(("stream", "number"), [("x", None), (None, 0), ("x", -1), ("x", 1 << 63)])
def test_a_stream_and_its_numbers_go_together(tmp_path: Path, stream: str | None, number: int | None) -> None:
    create(tmp_path)
    with serving(tmp_path) as service, pytest.raises(InvalidInputError, match="number"):
        service.put(terms(stream=stream), rows(1), number)
