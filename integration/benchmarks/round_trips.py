"""What each command waits for on an object store behind a slow network: round trips, requests and bytes.

A round trip takes 50 ms here and the server's own work a few, so a command's time divided by one request's time says
how many requests it waits for, one after another. The stores: a server of S3's protocol, Azure's emulator, and the
stand-in for Google's store (`google_stand_in`).
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
from clouds import start_cloud
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from servers import BUCKET, start_server
from slow_network import SlowNetwork, Traffic, slow_network

import txlog
from benchmarks.measure import Bench, best_in_bold, markdown_table

TITLE = "Round trips to an object store"

DELAY_S = 0.025
COMMITS = 24  # of the table: two checkpoints, and a few commits after the last one
ROWS = 100
CONTESTANTS = ("txlog", "deltalake")
STORES = {"versitygw": "S3", "azurite": "Azure (Azurite)", "google-stand-in": "Google (a stand-in)"}

Work = Callable[[], object]
Found = dict[tuple[str, str], tuple[float, Traffic]]


class Place(NamedTuple):
    """A table behind the slow network, with the options of either library, and without the network."""

    uri: str
    options: dict[str, str]
    options_of_deltalake: dict[str, str]
    direct: dict[str, str]

    def opened(self) -> txlog.Table:
        return txlog.Table.open(self.uri, storage_options=self.options)

    def opened_by_deltalake(self) -> DeltaTable:
        return DeltaTable(self.uri, storage_options=self.options_of_deltalake)


class Store(NamedTuple):
    """A running store, and the network before it."""

    scheme: str
    network: SlowNetwork
    options: dict[str, str]
    options_of_deltalake: dict[str, str]
    direct: dict[str, str]

    def place(self, name: str) -> Place:
        """A table of its own, grown without the network."""
        uri = f"{self.scheme}://{BUCKET}/{name}"
        schema = {"id": pa.int64()}
        feed = {"delta.enableChangeDataFeed": "true"} if name.startswith("changes") else {}
        table = txlog.Table.create(uri, schema, properties=feed, storage_options=self.direct)
        for commit in range(COMMITS):
            table.append(_rows(commit))
        table._open_table.post_commit.drain()
        return Place(uri, self.options, self.options_of_deltalake, self.direct)


def run(bench: Bench) -> str:
    found: dict[str, Found] = {}
    trips: dict[str, float] = {}
    for name in STORES:
        with _store(name) as store:
            trips[name] = _round_trip_s(store)
            found[name] = _measured(bench, name, store, trips[name])
    return _report(found, trips, _rounds(bench))


def _rounds(bench: Bench) -> int:
    return bench.scale(5, 1)


def _measured(bench: Bench, name: str, store: Store, trip_s: float) -> Found:
    found: Found = {}
    for command, contestants in COMMANDS.items():
        for contestant, ready in zip(CONTESTANTS, contestants, strict=True):
            if ready is None:
                continue
            next_call = ready(store.place(f"{command}-{contestant}".replace(" ", "-")))
            times, traffic = [], Traffic(0, 0, 0)
            for turn in range(_rounds(bench) + 1):
                work = next_call()
                store.network.traffic()
                begun_s = time.perf_counter()
                work()
                times.append(time.perf_counter() - begun_s)
                traffic = store.network.traffic()
                facts = {"store": name, "command": command, "contestant": contestant, "round": turn}
                bench.record(**facts, s=times[-1], traffic=traffic)
            found[command, contestant] = statistics.median(times[1:]) / trip_s, traffic
            bench.say(f"{name}: {command}, {contestant}: {found[command, contestant]}")
    return found


@contextmanager
def _store(name: str) -> Iterator[Store]:
    start = start_server if name == "versitygw" else start_cloud
    with (
        tempfile.TemporaryDirectory() as folder,
        start(name, Path(folder)) as server,
        slow_network(server.url, DELAY_S) as network,
    ):
        behind = replace(server, url=network.url)  # type: ignore[type-var]
        if name == "versitygw":
            options = {**behind.storage_options, "aws_conditional_put": "etag"}
            yield Store("s3", network, options, options, server.storage_options)
        else:
            yield Store(
                server.scheme, network, behind.storage_options, behind.options_of_deltalake, server.storage_options
            )


def _rows(start: int) -> pa.Table:
    return pa.table({"id": pa.array(range(start * ROWS, (start + 1) * ROWS), pa.int64())})


def _round_trip_s(store: Store) -> float:
    """The time of one small request on an open connection."""
    from txlog.core.store import open_store

    place = store.place("one-request")
    log = open_store(place.uri, place.options).log
    times = []
    for _ in range(6):
        begun_s = time.perf_counter()
        log.read("_last_checkpoint")
        times.append(time.perf_counter() - begun_s)
    return statistics.median(times[1:])


# --- the commands -----------------------------------------------------------------------------------------------------
# For each: a function that takes a table's place, and returns one that prepares the next measured call and returns it.

Ready = Callable[[Place], Callable[[], Work]]


def _on_handle(call: Callable[[txlog.Table], object]) -> Ready:
    """With a handle that has committed before."""

    def ready(place: Place) -> Callable[[], Work]:
        table = place.opened()
        table.append(_ROW)
        table._open_table.post_commit.drain()

        def next_call() -> Work:
            table._open_table.post_commit.drain()
            return lambda: call(table)

        return next_call

    return ready


def _on_delta(call: Callable[[DeltaTable], object]) -> Ready:
    """The same for deltalake, whose handles are brought up to date by their user."""

    def ready(place: Place) -> Callable[[], Work]:
        delta = place.opened_by_deltalake()

        def next_call() -> Work:
            delta.update_incremental()
            return lambda: call(delta)

        return next_call

    return ready


def _again(call: Callable[[Place], object]) -> Ready:
    return lambda place: lambda: lambda: call(place)


def _merge(delta: DeltaTable) -> object:
    changes = delta.merge(_rows(1), "source.id = target.id", source_alias="source", target_alias="target")
    return changes.when_matched_update_all().when_not_matched_insert_all().execute()


def _append_checkpoint() -> tuple[Ready, Ready]:
    numbers = iter(range(1 << 30))
    return (
        _on_handle(lambda table: table.append(_ROW, app_id="job", checkpoint_id=next(numbers))),
        _on_delta(
            lambda delta: write_deltalake(
                delta,
                _ROW,
                mode="append",
                commit_properties=CommitProperties(app_transactions=[Transaction("job", next(numbers))]),
            )
        ),
    )


def _delete_one_row() -> tuple[Ready, Ready]:
    ours, theirs = iter(range(1 << 30)), iter(range(1 << 30))
    return (
        _on_handle(lambda table: table.delete(f"id = {next(ours)}")),
        _on_delta(lambda delta: delta.delete(f"id = {next(theirs)}")),
    )


_ROW = _rows(0).slice(0, 1)

COMMANDS: dict[str, tuple[Ready, Ready | None]] = {
    "append in an open handle": (
        _on_handle(lambda table: table.append(_ROW)),
        _on_delta(lambda delta: write_deltalake(delta, _ROW, mode="append")),
    ),
    "append of a checkpoint": _append_checkpoint(),
    "open and append": (
        _again(lambda place: place.opened().append(_ROW)),
        _again(
            lambda place: write_deltalake(place.uri, _ROW, mode="append", storage_options=place.options_of_deltalake)
        ),
    ),
    "open and list the files": (
        _again(lambda place: place.opened().snapshot().files()),
        _again(lambda place: place.opened_by_deltalake().file_uris()),
    ),
    "open and read": (
        _again(lambda place: place.opened().to_arrow()),
        _again(lambda place: place.opened_by_deltalake().to_pyarrow_table()),
    ),
    "history": (_on_handle(lambda table: table.history(10)), _on_delta(lambda delta: delta.history(10))),
    "upsert of 100 rows in an open handle": (
        _on_handle(lambda table: table.upsert(_rows(1), keys=["id"])),
        _on_delta(_merge),
    ),
    "merge of 100 rows": (
        _on_handle(
            lambda table: (
                table.merge(_rows(1), on="source.id = target.id")
                .when_matched_update_all()
                .when_not_matched_insert_all()
                .execute()
            )
        ),
        _on_delta(_merge),
    ),
    "delete of one row": _delete_one_row(),
    "update of 100 rows": (
        _on_handle(lambda table: table.update({"id": txlog.expr("id")}, "id >= 100 AND id < 200")),
        _on_delta(lambda delta: delta.update({"id": "id"}, predicate="id >= 100 AND id < 200")),
    ),
    "overwrite": (
        _on_handle(lambda table: table.overwrite(_ROW)),
        _on_delta(lambda delta: write_deltalake(delta, _ROW, mode="overwrite")),
    ),
    "compaction": (
        _on_handle(lambda table: (table.append(_ROW), table.optimize())),
        _on_delta(lambda delta: (write_deltalake(delta, _ROW, mode="append"), delta.optimize.compact())),
    ),
    "vacuum that finds nothing": (
        _on_handle(lambda table: table.vacuum()),
        _on_delta(lambda delta: delta.vacuum(dry_run=False)),
    ),
    "restore": (_on_handle(lambda table: table.restore(5)), _on_delta(lambda delta: delta.restore(5))),
    "changes of one version": (
        _on_handle(lambda table: table.changes(COMMITS, COMMITS).read_all()),
        _on_delta(lambda delta: delta.load_cdf(starting_version=COMMITS, ending_version=COMMITS).read_all()),
    ),
}


# --- the report -------------------------------------------------------------------------------------------------------


def _report(found: Mapping[str, Found], trips: Mapping[str, float], rounds: int) -> str:
    on_s3 = found["versitygw"]
    rows, of_others = [], []
    for command in COMMANDS:
        line = [on_s3.get((command, contestant)) for contestant in CONTESTANTS]
        traffic = [None if each is None else each[1] for each in line]
        rows.append(
            (
                command,
                *_trips(on_s3, command),
                *("" if each is None else f"{each.requests:,}" for each in traffic),
                *("" if each is None else f"{(each.sent_bytes + each.received_bytes) / 1e3:,.1f}" for each in traffic),
            )
        )
        of_others.append((command, *(cell for name in STORES for cell in _trips(found[name], command))))
    header = ["command", *(f"{name}: {what}" for what in ("round trips", "requests", "kB") for name in CONTESTANTS)]
    header_of_others = ["command", *(f"{store}: {name}" for store in STORES.values() for name in CONTESTANTS)]
    requests = ", ".join(f"{store} {1000 * trips[name]:.0f} ms" for name, store in STORES.items())
    return (
        f"{markdown_table(header, rows)}\n\nThe median time of {rounds} calls, divided by the time of one request, on"
        f" versitygw behind {1000 * DELAY_S:.0f} ms of delay each way; the table of each command has {COMMITS} commits"
        f" of {ROWS} rows at the beginning, made by txlog. Requests and bytes are those of the last call, with what"
        f" follows a commit.\n\nThe round trips on each kind of store (one request: {requests}):\n\n"
        f"{markdown_table(header_of_others, of_others)}"
    )


def _trips(found: Found, command: str) -> list[str]:
    trips = {name: round(found[command, name][0], 1) for name in CONTESTANTS if (command, name) in found}
    shown = dict(zip(trips, best_in_bold([*trips.values()], [f"{each:.1f}" for each in trips.values()]), strict=True))
    return [shown.get(name, "") for name in CONTESTANTS]
