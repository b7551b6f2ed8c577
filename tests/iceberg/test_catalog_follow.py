"""An entry of an Iceberg catalog that does not answer, and one that two exporters move at once."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from types import SimpleNamespace

import pyarrow as pa
import pyiceberg.catalog
import pytest
from pyiceberg.utils.config import Config

from txlog import Table
from txlog.core.versions import OpenTable
from txlog.errors import StorageError
from txlog.iceberg import catalog_follow
from txlog.iceberg.catalog import import_client, move_entry
from txlog.iceberg.catalog_follow import follow
from txlog.iceberg.exporter import place_of
from txlog.iceberg.metadata_folder import MetadataFolder
from txlog.testing.memory_store import memory_table_store

ROW = pa.table({"id": pa.array([1], pa.int64())})


def created(properties: dict[str, str]) -> Table:
    from txlog.core.definition import create_table

    open_table = OpenTable(memory_table_store())
    create_table(open_table, ROW.schema, (), properties)
    return Table(open_table)


def asking() -> list[threading.Thread]:
    """The threads that wait for a catalog."""
    return [each for each in threading.enumerate() if each.name == "txlog-iceberg-catalog"]


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """An entry of a REST catalog that takes calls and never answers."""
    monkeypatch.setattr(catalog_follow, "ANSWER_S", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setenv("PYICEBERG_CATALOG__SILENT__TYPE", "rest")
        monkeypatch.setenv("PYICEBERG_CATALOG__SILENT__URI", f"http://127.0.0.1:{server.getsockname()[1]}")
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        monkeypatch.setattr("pyiceberg.catalog._ENV_CONFIG", Config())  # which is read once, at import
        yield "silent.sales.orders"
    for thread in asking():  # closing the socket has ended their calls
        thread.join(30)


def test_a_catalog_that_never_answers_stops_neither_exports_nor_the_end_of_the_process(
    silent: str, caplog: pytest.LogCaptureFixture
) -> None:
    table = created({"txlog.iceberg": "v2", "txlog.iceberg.catalog": silent})
    for _ in range(3):
        table.append(ROW)
        table._open_table.post_commit.drain()
        exported = table._open_table.post_commit.follower("txlog.iceberg").exporter().exported()
        assert exported is not None
        assert exported.version == table.version
    catalog = silent.partition(".")[0]
    assert f"memory://table: the Iceberg catalog {catalog!r} has not answered for 0.1 s" in caplog.text
    assert f"so its entry {silent} stays as it was" in caplog.text
    assert f"the next export updates the entry, or now `txlog iceberg URI --register {silent}`" in caplog.text
    assert [thread.daemon for thread in asking()] == [True]
    with pytest.raises(StorageError, match="the next export updates the entry"):
        table.export_iceberg()
    assert len(asking()) == 1


class Catalog:
    """A catalog that sets an entry without comparing it, as most do. ``race`` runs between the two once."""

    def __init__(self) -> None:
        self.location = ""
        self.race = lambda: None

    def load_table(self, identifier: tuple[str, ...]) -> SimpleNamespace:
        return SimpleNamespace(metadata_location=self.location)

    def register_table(self, identifier: tuple[str, ...], location: str, overwrite: bool = False) -> None:
        race, self.race = self.race, lambda: None
        race()
        self.location = location

    def close(self) -> None:
        pass


def test_an_entry_that_another_exporter_moved_on_in_between_ends_at_the_newest_metadata(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    theirs = Catalog()
    monkeypatch.setattr(pyiceberg.catalog, "load_catalog", lambda name: theirs)
    table = created({})
    theirs.location = table.export_iceberg().metadata_location
    table.append(ROW)
    second = table.export_iceberg().metadata_location
    newest: list[str] = []

    def another_process() -> None:
        table.append(ROW)
        newest.append(table.export_iceberg().metadata_location)
        assert move_entry("a.sales.orders", newest[0])

    theirs.race = another_process
    store = table._open_table.store
    assert store.iceberg is not None
    follow("a.sales.orders", second, MetadataFolder(store.iceberg, place_of(store.uri)))
    assert newest
    assert theirs.location == newest[0] != second


def test_an_entry_is_moved_though_the_interpreter_starts_no_thread_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """In exit handlers, from Python 3.12 on."""

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    theirs = Catalog()
    monkeypatch.setattr(pyiceberg.catalog, "load_catalog", lambda name: theirs)
    table = created({})
    theirs.location = table.export_iceberg().metadata_location
    table.append(ROW)
    second = table.export_iceberg().metadata_location
    store = table._open_table.store
    assert store.iceberg is not None
    import_client("a.sales.orders")  # as a handle does before
    monkeypatch.setattr(threading.Thread, "start", refuse)
    follow("a.sales.orders", second, MetadataFolder(store.iceberg, place_of(store.uri)))
    assert theirs.location == second


class Slow(Catalog):
    """A catalog whose first answer comes late."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.may_answer = threading.Event(), threading.Event()

    def load_table(self, identifier: tuple[str, ...]) -> SimpleNamespace:
        found = super().load_table(identifier)
        self.asked.set()
        assert self.may_answer.wait(30)
        return found


def test_an_export_that_waited_for_an_earlier_move_moves_the_entry_to_its_own_metadata(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The earlier one found the entry as it wanted it, so it did not look for newer metadata."""
    theirs = Slow()
    monkeypatch.setattr(pyiceberg.catalog, "load_catalog", lambda name: theirs)
    table = created({})
    store = table._open_table.store
    assert store.iceberg is not None
    first = theirs.location = table.export_iceberg().metadata_location
    earlier = threading.Thread(
        target=follow, args=("b.sales.orders", first, MetadataFolder(store.iceberg, place_of(store.uri)))
    )
    earlier.start()
    assert theirs.asked.wait(30)
    table.append(ROW)
    second = table.export_iceberg().metadata_location
    answer = threading.Timer(0.2, theirs.may_answer.set)
    answer.start()
    follow("b.sales.orders", second, MetadataFolder(store.iceberg, place_of(store.uri)))
    earlier.join(30)
    answer.join()
    assert theirs.location == second
