"""What a sink of changes reads of data files and of the keys that its tasks staged."""

from __future__ import annotations

import pytest

import txlog
from tests.watched import KEYS, Watched, rows, values


@KEYS
def test_from_its_fourth_checkpoint_on_a_sink_reads_no_data_file(keys: list[str]) -> None:
    watched = Watched()
    watched.others.append(rows(*range(50)))
    sink = txlog.Sink(watched.table, "app", mode="upsert", keys=keys)

    def checkpoint(number: int, *ids: int, gone: tuple[int, ...] = ()) -> set[str]:
        tasks = []
        for task_id in (0, 1):  # each has changes of its own, and files of its own
            with sink.task(number, task_id) as task:
                task.write(rows(*(each for each in ids if each % 2 == task_id), v=number))
                task.delete(rows(*(each for each in gone if each % 2 == task_id)))
            tasks.append(task.committable)
        staged = {file.path for each in tasks for file in each.files}  # whose keys the commit looks up
        read = watched.read_by(lambda: sink.commit(number, tasks))
        return {path for path in read - staged if path.startswith("part-")}

    assert checkpoint(1, 1, 2, 60, 61)
    assert checkpoint(2, 2, 3, 62, 63, gone=(60,))
    assert len(checkpoint(3, 1, 2, 61)) == 1, "what it wrote before it knew any file, and is not gone"
    expected = {**dict.fromkeys(range(50), 0), 1: 3, 2: 3, 3: 2, 61: 3, 62: 2, 63: 2}
    for number in range(4, 8):
        new, old = 60 + 2 * number, 20 + 2 * number
        # its newest keys, in another order than they were written in, in files that have keys of rows that go beside
        assert not checkpoint(number, new + 1, new, new - 1, old + 1, old, gone=(new - 2, 5 + number)), number
        expected = {key: v for key, v in expected.items() if key not in (new - 2, 5 + number)}
        expected |= dict.fromkeys((new + 1, new, new - 1, old + 1, old), number)
        assert values(watched) == expected


@pytest.mark.parametrize("partition_by", [[], ["v"]], ids=["flat", "partitioned"])
def test_a_checkpoint_without_deletes_has_only_data_files_and_each_is_read_at_most_once(
    partition_by: list[str],
) -> None:
    watched = Watched(partition_by=partition_by)
    watched.others.append(rows(1, 2, v=5))
    sink = txlog.Sink(watched.table, "app", mode="upsert", keys=["id", "v"])
    tasks = []
    for task_id in (0, 1):
        with sink.task(1, task_id) as task:
            task.write(rows(1 + task_id, 10 + task_id, v=5))
            task.write(rows(20 + task_id, v=6))
        tasks.append(task.committable)
        assert [len(each.files) for each in tasks] == [1 + len(partition_by)] * len(tasks)
        assert not any(each.keys for each in tasks)
    watched.files.calls.clear()
    sink.commit(1, tasks)
    for file in (file for each in tasks for file in each.files):
        # Of a table without partitions, the tasks of this process keep the keys in the order of their file.
        calls = ["stat", "open"] if partition_by else ["stat"]
        assert [what for what, path in watched.files.calls if path == file.path] == calls
    expected = [(key, f"name {key}", 5) for key in (1, 2, 10, 11)] + [(key, f"name {key}", 6) for key in (20, 21)]
    assert watched.rows() == sorted(expected, key=repr)


def test_a_small_checkpoint_is_synced_once_and_its_key_file_is_read_with_one_request() -> None:
    watched = Watched()
    sink = txlog.Sink(watched.table, "app", mode="upsert", keys=["id"])
    watched.files.calls.clear()
    with sink.task(1) as task:
        task.write(rows(1, 2, 3))
        task.delete(rows(4))
    assert [operation for operation, _ in watched.files.calls].count("make_durable") == 1
    watched.files.calls.clear()
    sink.commit(1, [task.committable])
    of_keys = [operation for operation, path in watched.files.calls if path.startswith("keys-")]
    assert of_keys == ["stat", "read_from", "delete"]
