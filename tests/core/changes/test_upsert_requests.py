"""What an upsert asks of an object store: two requests for each file that may hold a key, and one for what it adds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest

import txlog
from txlog.core.format.log_names import commit_name
from txlog.testing.faulty_s3 import FaultyS3

FILES, ROWS = 4, 20_000
SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string()), ("v", pa.float64())])


def rows(ids: np.ndarray) -> pa.Table:  # type: ignore[type-arg]
    random = np.random.default_rng(5)
    names = [f"{number:032x}" for number in random.integers(0, 2**60, len(ids)).tolist()]
    return pa.table([ids, names, random.random(len(ids))], schema=SCHEMA)


def requests_of(server: FaultyS3, work: Callable[[], object]) -> Counter[tuple[str, str]]:
    """How many requests there were, by method and by what they were about: a file of the table, or a kind of file."""
    server.requests.clear()
    work()
    found: Counter[tuple[str, str]] = Counter()
    for request in server.requests:
        name = request.key.rpartition("/")[2]
        kind = name[-4:] if request.method == "PUT" and not name.endswith(".json") else name
        found[request.method, kind] += 1
    return found


@pytest.mark.parametrize("are_spread", [True, False], ids=["in every file", "in one file"])
def test_an_upsert_makes_two_requests_for_each_file_that_may_hold_a_key(are_spread: bool) -> None:
    with FaultyS3() as server:
        uri = "s3://bucket/table"
        table = txlog.Table.create(
            uri, SCHEMA, properties={"delta.enableDeletionVectors": "true"}, storage_options=server.storage_options
        )
        for number in range(FILES):
            ids = np.arange(ROWS) * FILES + number if are_spread else np.arange(ROWS) + number * ROWS
            table.append(rows(ids))
        assert min(table.snapshot().files()["size"].to_pylist()) > 100_000, "more than the end that is read first"
        table = txlog.Table.open(uri, storage_options=server.storage_options)
        table.version  # noqa: B018
        source = rows(np.arange(0, 400, 3))
        found = requests_of(server, lambda: _upsert(table, source))
        read = {key: count for key, count in found.items() if key[0] in ("GET", "HEAD") and "part-" in key[1]}
        assert len(read) == (FILES if are_spread else 1), "the candidates; an own file is not read back"
        assert set(read.values()) == {2}, found
        assert found["PUT", "quet"] == found["PUT", ".bin"] == found["PUT", commit_name(table.version)] == 1
        _upsert(table, rows(np.arange(1, 400, 3)))
        warm = requests_of(server, lambda: _upsert(table, rows(np.arange(2, 400, 3))))
        seen = [name for method, name in warm if "part-" in name and method in ("GET", "HEAD")]
        assert len(seen) <= 1, "the file that the upsert before it wrote"


def test_a_new_handle_reads_the_end_of_each_data_file_and_its_kept_keys_and_no_value() -> None:
    with FaultyS3() as server:
        uri, properties = "s3://bucket/table", {"delta.enableDeletionVectors": "true", "txlog.keyIndex": "id"}
        table = txlog.Table.create(uri, SCHEMA, properties=properties, storage_options=server.storage_options)
        for number in range(FILES):
            table.append(rows(np.arange(ROWS) * FILES + number))
        assert table.maintain(vacuum_every_hours=None).key_files == FILES
        table = txlog.Table.open(uri, storage_options=server.storage_options)
        table.version  # noqa: B018
        found = requests_of(server, lambda: _upsert(table, rows(np.arange(0, 400, 3))))
        data = {name: count for (method, name), count in found.items() if "part-" in name and method != "PUT"}
        keys = {name: count for (method, name), count in found.items() if name.endswith(".keys") and method != "PUT"}
        assert (len(data), {*data.values()}) == (FILES, {1}), found
        assert (len(keys), {*keys.values()}) == (FILES, {1}), found
        assert table.count() == FILES * ROWS


def _upsert(table: txlog.Table, source: pa.Table) -> None:
    table.upsert(source, ["id"])
    table._open_table.post_commit.drain()
