"""How many requests each command waits for, one after another, of real servers: as many as of a store in memory.

Microsoft's store takes one more for new files: it says no MD5 of what it stores, so their size is looked at.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import obstore.exceptions
import pytest
from clouds import start_cloud
from go_servers import ServerUnavailable
from servers import S3Location, start_server

import txlog
from tests.round_trips import RoundTrips
from tests.timed_commands import COMMANDS, FILE_ROWS, FILES, rows_of
from txlog.core.store._object_client import ObjectClient

ASKED = frozenset(("append", "delete by vectors", "upsert by copies", "open and read", "vacuum", "sink: commit"))
# The client is asked once more, and knows by itself that the list of all files has ended.
MORE = dict.fromkeys(("vacuum", "vacuum that finds nothing"), 1)


@pytest.fixture(
    scope="module",
    params=[
        "localbucket",
        *(pytest.param(cloud, marks=pytest.mark.hunt(part="clouds")) for cloud in ("azurite", "google-stand-in")),
    ],
)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    start = start_server if request.param == "localbucket" else start_cloud
    try:
        with start(request.param, tmp_path_factory.mktemp(request.param)) as found:
            yield found
    except ServerUnavailable as error:
        pytest.skip(f"NOT TESTED: against {request.param}: {error}")


@pytest.fixture
def trips(monkeypatch: pytest.MonkeyPatch) -> RoundTrips:
    counted = RoundTrips()
    enter, send_once = ObjectClient._enter, ObjectClient.send_once

    def counting(self: ObjectClient, *, repeats: bool) -> Any:
        counted.asks("request")
        return enter(self, repeats=repeats)

    def counting_what_is_sent(self: ObjectClient, request: Any) -> Any:
        before = counted.count
        try:
            return send_once(self, request)
        except obstore.exceptions.NotSupportedError:  # which the client says by itself
            counted.count = before
            raise

    monkeypatch.setattr(ObjectClient, "_enter", counting)
    monkeypatch.setattr(ObjectClient, "send_once", counting_what_is_sent)
    return counted


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in ASKED else pytest.mark.hunt(part="clouds")) for name in COMMANDS]
)
def test_a_command_waits_for_as_many_requests_as_in_memory(server: Any, name: str, trips: RoundTrips) -> None:
    command, place = COMMANDS[name], server.new_location()
    table = txlog.Table.create(
        place.uri, rows_of([]).schema, properties=command.properties, storage_options=place.storage_options
    )
    for commit in range(FILES):
        table.append(rows_of(range(commit * FILE_ROWS, (commit + 1) * FILE_ROWS)))
        table._open_table.post_commit.drain()
    table = opened(place)  # a handle that made all files knows them
    table.append(rows_of([100_000]))
    table._open_table.post_commit.drain()
    work = command.ready(table, lambda: opened(place))
    with trips.of():
        work()
    assert trips.count == command.trips + MORE.get(name, 0)


def opened(place: S3Location) -> txlog.Table:
    return txlog.Table.open(place.uri, storage_options=place.storage_options)
