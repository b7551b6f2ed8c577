"""What a sink's staging promises on every store, as functions that take the stores of a fresh table."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from txlog.core.sink import Staging
from txlog.core.sink._staging import Manifest, SealedTask
from txlog.core.store import RetryPolicy, TableStore
from txlog.core.writing.committable import Committable, PendingFile
from txlog.core.writing.write_intent import APPEND
from txlog.errors import InvalidInputError, NotFoundError, TxlogError

__all__ = ["AWKWARD_APP_IDS", "STAGING_CONTRACT", "committable", "sealed", "staging_of"]

AWKWARD_APP_IDS = (
    "orders",
    "orders-",
    "Orders",
    "orders/../../etc",
    "bestellungen/köln ☃",
    "ünï/" * 75,
    ".",
    "/",
    "a.00000000000000000001.manifest",
    "line\nbreak\0",
)
LAST = 2**63 - 1


def staging_of(store: TableStore) -> Staging:
    return Staging(store, RetryPolicy(total_timeout=5))


def committable(app_id: str = "app", checkpoint_id: int = 1, task_id: int = 0, attempt: int = 0, rows: int = 3) -> Any:
    file = PendingFile(f"part-{task_id}-{attempt}-{rows}.parquet", 100 * rows, rows, 5, {"day": None}, '{"a": "ü"}')
    return Committable(app_id, checkpoint_id, "job", task_id, attempt, "table", 4, (file,))


def sealed(*tasks: Committable, fingerprint: str | None = None) -> Manifest:
    found = tuple(SealedTask.of(task, task.to_bytes()) for task in tasks)
    assert tasks[0].app_id is not None
    assert tasks[0].checkpoint_id is not None
    return Manifest(tasks[0].app_id, tasks[0].checkpoint_id, "table", APPEND, fingerprint, found)


def what_is_staged_and_sealed_is_read_back_by_another(store: TableStore) -> None:
    tasks = [committable(task_id=task_id, attempt=task_id % 3) for task_id in range(12)]
    for task in reversed(tasks):
        staging_of(store).stage(task)
    manifest = sealed(*tasks, fingerprint="offsets 0-100")
    assert staging_of(store).seal(manifest) == manifest
    (staged,) = staging_of(store).checkpoints("app")
    assert (staged.checkpoint_id, staged.is_sealed) == (1, True)
    assert staged.attempts == {task.task_id: (task.attempt,) for task in tasks}
    assert staging_of(store).manifest(staged) == manifest
    assert staging_of(store).committables(staged, manifest) == tasks
    assert (manifest.num_rows, manifest.num_files, manifest.size_bytes) == (36, 12, 3600)


def an_attempt_stages_once(store: TableStore) -> None:
    staging_of(store).stage(committable())
    staging_of(store).stage(committable())
    with pytest.raises(InvalidInputError, match="attempt 0 of task 0 of checkpoint 1 of 'app'"):
        staging_of(store).stage(committable(rows=4))
    staging_of(store).stage(committable(attempt=1, rows=4))
    (staged,) = staging_of(store).checkpoints("app")
    assert staged.attempts == {0: (0, 1)}
    assert [each.num_rows for _, each in staging_of(store).tasks(staged, {0: 0})] == [3]


def of_many_that_seal_one_wins_and_all_learn_what_it_sealed(store: TableStore) -> None:
    manifests = [sealed(committable(task_id=number)) for number in range(8)]
    start = threading.Barrier(len(manifests))

    def seal(manifest: Manifest) -> Manifest:
        start.wait()
        return staging_of(store).seal(manifest)

    with ThreadPoolExecutor(len(manifests)) as pool:
        running = [pool.submit(contextvars.copy_context().run, seal, manifest) for manifest in manifests]
        found = [each.result() for each in running]
    assert len(set(found)) == 1
    assert found[0] in manifests


def applications_are_told_apart_whatever_they_are_called(store: TableStore) -> None:
    for number, app_id in enumerate(AWKWARD_APP_IDS):
        for checkpoint_id in (LAST, 0, number + 1):
            staging_of(store).stage(committable(app_id, checkpoint_id, task_id=LAST, attempt=LAST))
    for number, app_id in enumerate(AWKWARD_APP_IDS):
        found = staging_of(store).checkpoints(app_id)
        assert [each.checkpoint_id for each in found] == [0, number + 1, LAST], app_id
        assert found[2].attempts == {LAST: (LAST,)}
        assert [each.app_id for _, each in staging_of(store).tasks(found[0], {LAST: LAST})] == [app_id]
    assert len(staging_of(store).checkpoints()) == 3 * len(AWKWARD_APP_IDS)


def what_is_removed_is_gone_and_its_name_is_free(store: TableStore) -> None:
    staging = staging_of(store)
    staging.stage(committable())
    staging.stage(committable(checkpoint_id=2))
    staging.seal(sealed(committable()))
    first, second = staging.checkpoints("app")
    assert first.names[0].endswith(".manifest")
    staging.remove(first.names)
    staging.remove(first.names)
    assert staging.checkpoints("app") == (second,)
    with pytest.raises(NotFoundError):
        staging.manifest(first)
    with pytest.raises(NotFoundError):
        staging.tasks(first, {0: 0})
    staging.stage(committable(rows=9))


def what_was_changed_behind_our_back_is_not_believed(store: TableStore) -> None:
    assert store.staging is not None
    staging = staging_of(store)
    manifest = sealed(committable())
    staging.stage(committable())
    staging.seal(manifest)
    (staged,) = staging.checkpoints("app")
    of_manifest, of_task = staged.names
    others: dict[str, tuple[bytes, ...]] = {
        of_task: (
            b"",
            committable().to_bytes()[:-1],
            committable(task_id=1).to_bytes(),
            committable(rows=4).to_bytes(),
        ),
        of_manifest: (b"", b"txlog-manifest 9 x\n{}", manifest.to_bytes()[:-1], sealed(committable("b")).to_bytes()),
    }
    for name, bodies in others.items():
        before = store.staging.read(name)
        for body in bodies:
            store.staging.put(name, body)
            with pytest.raises(TxlogError):
                staging.committables(staged, staging.manifest(staged))
        store.staging.put(name, before)
    assert staging.committables(staged, staging.manifest(staged)) == [committable()]


def what_others_keep_in_the_folder_is_passed_over(store: TableStore) -> None:
    assert store.staging is not None
    for name in ("notes.txt", "app.1.manifest", f"app.{1:020}.task.x.0", f"app.{1:020}.manifest.old"):
        store.staging.put(name, b"?")
    assert staging_of(store).checkpoints() == ()


def nothing_staged_is_nothing(store: TableStore) -> None:
    assert staging_of(store).checkpoints() == ()
    assert staging_of(store).checkpoints("app") == ()


STAGING_CONTRACT: tuple[Callable[[TableStore], None], ...] = (
    what_is_staged_and_sealed_is_read_back_by_another,
    an_attempt_stages_once,
    of_many_that_seal_one_wins_and_all_learn_what_it_sealed,
    applications_are_told_apart_whatever_they_are_called,
    what_is_removed_is_gone_and_its_name_is_free,
    what_was_changed_behind_our_back_is_not_believed,
    what_others_keep_in_the_folder_is_passed_over,
    nothing_staged_is_nothing,
)
