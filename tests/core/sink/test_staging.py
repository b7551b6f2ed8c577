"""Staging: what it keeps on each store, what it answers where the store's answers get lost, and its bytes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from staging_contract import AWKWARD_APP_IDS, STAGING_CONTRACT, committable, sealed, staging_of

import txlog
from txlog.core.sink._staging import Manifest, Staging, checkpoints_of, key_of
from txlog.core.store import ObjectMeta, PutOutcome, RetryPolicy, TableStore, open_store
from txlog.core.store._base import LOCAL_DISK
from txlog.core.writing.write_intent import APPEND, OVERWRITE, OVERWRITE_PARTITIONS, WriteIntent
from txlog.testing.memory_store import MemoryFileStore, MemoryLogStore, memory_table_store


@pytest.fixture(params=["memory", "local"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> TableStore:
    return memory_table_store() if request.param == "memory" else open_store(tmp_path / "table")


@pytest.mark.parametrize("check", STAGING_CONTRACT, ids=lambda check: check.__name__)
def test_a_store_keeps_the_staging_contract(store: TableStore, check: Callable[[TableStore], None]) -> None:
    check(store)


# --- where answers get lost ---------------------------------------------------------------------------------------


@pytest.fixture
def scripted(scripted_log: Any) -> TableStore:
    return TableStore("memory://table", MemoryLogStore(), MemoryFileStore(), scripted_log)


def lost_after_landing(real: Any, name: str, body: bytes) -> PutOutcome:
    real(name, body)
    return PutOutcome.UNKNOWN


def lost_before_landing(real: Any, name: str, body: bytes) -> PutOutcome:
    return PutOutcome.UNKNOWN


@pytest.mark.parametrize("answer", [lost_after_landing, lost_before_landing])
def test_the_outcome_of_a_lost_answer_is_found_by_reading(
    answer: Any, scripted: TableStore, scripted_log: Any, clock: Any
) -> None:
    scripted_log.script["put_if_absent"] = [answer, answer]
    staging_of(scripted).stage(committable())
    assert staging_of(scripted).seal(sealed(committable())) == sealed(committable())
    (staged,) = staging_of(scripted).checkpoints("app")
    assert staged.is_sealed
    assert staged.attempts == {0: (0,)}


def test_a_lost_answer_may_hide_that_another_writer_was_first(
    scripted: TableStore, scripted_log: Any, clock: Any
) -> None:
    theirs = sealed(committable(task_id=7))
    staging_of(scripted).seal(theirs)
    scripted_log.script["put_if_absent"] = [lost_before_landing]
    assert staging_of(scripted).seal(sealed(committable())) == theirs


def test_an_object_found_by_reading_is_made_durable(scripted: TableStore, scripted_log: Any, clock: Any) -> None:
    scripted_log.script["put_if_absent"] = [lost_after_landing]
    staging_of(scripted).stage(committable())
    assert scripted_log.names("make_durable") == scripted_log.names("put_if_absent")


def test_a_store_that_never_answers_raises_an_error_within_the_timeout(
    scripted: TableStore, scripted_log: Any, clock: Any
) -> None:
    scripted_log.script["put_if_absent"] = [lost_before_landing] * 1000
    with pytest.raises(txlog.StorageError, match="Run it again"):
        Staging(scripted, RetryPolicy(total_timeout=2)).stage(committable())
    assert sum(clock.slept_s) == pytest.approx(2, abs=0.5)


def test_a_listing_that_shows_a_seal_and_misses_an_earlier_one_is_repeated(
    scripted: TableStore, scripted_log: Any
) -> None:
    """As that of a directory may, into which both were put while it was read, and a third before it was read again."""
    scripted_log.inner.capabilities = LOCAL_DISK
    staging = staging_of(scripted)

    def put(checkpoint_id: int) -> None:
        staging.stage(committable(checkpoint_id=checkpoint_id))
        staging.seal(sealed(committable(checkpoint_id=checkpoint_id)))

    def without_the_first(real: Any, start: str) -> list[ObjectMeta]:
        put(1)
        put(2)
        return [meta for meta in real(start) if f"{1:020}" not in meta.name]

    def and_a_third(real: Any, start: str) -> Any:
        put(4)
        return real(start)

    scripted_log.script["list_from"] = [without_the_first, and_a_third]
    assert [each.checkpoint_id for each in staging.checkpoints("app")] == [1, 2]
    assert [each.checkpoint_id for each in staging.checkpoints("app")] == [1, 2, 4]


def test_a_manifest_is_deleted_before_what_it_names(scripted: TableStore, scripted_log: Any) -> None:
    """A removal that is cut short must not leave a seal of what is gone."""
    staging = staging_of(scripted)
    staging.stage(committable(task_id=0), committable(task_id=1))
    staging.seal(sealed(committable(task_id=0), committable(task_id=1)))
    (staged,) = staging.checkpoints("app")
    staging.remove(reversed(staged.names))
    first, *rest = scripted_log.names("delete")
    assert first.endswith(".manifest")
    assert sorted([first, *rest]) == sorted(staged.names)


def test_a_staged_object_under_another_objects_name_is_refused() -> None:
    """As a copy or a rename by hand leaves it: the name says one checkpoint or task, the bytes another."""
    store = memory_table_store()
    staging = staging_of(store)
    assert isinstance(store.staging, MemoryLogStore)
    objects = store.staging.objects
    for checkpoint_id in (1, 2):
        staging.stage(*(committable(checkpoint_id=checkpoint_id, task_id=task_id) for task_id in (0, 1)))
    staging.seal(sealed(committable(checkpoint_id=1)))
    (manifest,) = (name for name in objects if name.endswith(".manifest"))
    objects[manifest.replace(f"{1:020}", f"{2:020}")] = objects[manifest]
    first, second = staging.checkpoints("app")
    assert staging.manifest(first).checkpoint_id == 1
    with pytest.raises(txlog.InvalidInputError, match="belongs to another checkpoint"):
        staging.manifest(second)
    one, other = sorted(name for name in objects if ".task." in name and f"{1:020}" in name)
    objects[one] = objects[other]
    with pytest.raises(txlog.InvalidInputError, match="belongs to another task"):
        staging.tasks(first, {0: 0})


def test_a_seal_is_undone_if_staged_work_was_deleted_and_kept_if_a_listing_hides_it(
    scripted: TableStore, scripted_log: Any
) -> None:
    staging = staging_of(scripted)
    staging.stage(committable())
    staging.seal(sealed(committable()))
    scripted_log.script["list_from"] = [lambda real, start: []]
    staging.check_sealed(sealed(committable()))
    (staged,) = staging.checkpoints("app")
    scripted_log.delete(staged.names[1])
    with pytest.raises(txlog.NotFoundError, match="Nothing was sealed"):
        staging.check_sealed(sealed(committable()))
    assert not any(each.has_work for each in staging.checkpoints("app"))


def test_visible_but_not_durable_staging_is_not_acknowledged(scripted: TableStore, scripted_log: Any) -> None:
    scripted_log.inner.before_sync = lambda name: False
    with pytest.raises(txlog.StorageError, match="could not be synced"):
        staging_of(scripted).stage(committable())


def test_a_failed_delete_after_a_commit_only_logs_a_warning(
    scripted: TableStore, scripted_log: Any, caplog: pytest.LogCaptureFixture
) -> None:
    def refused(real: Any, name: str) -> None:
        raise txlog.StorageError("no permission")

    staging = staging_of(scripted)
    staging.stage(committable())
    scripted_log.script["delete"] = [refused]
    staging.remove_quietly(staging.checkpoints()[0].names)
    assert "no permission" in caplog.text
    assert len(staging.checkpoints()) == 1


def test_a_store_without_staging_lists_nothing_and_refuses_to_stage() -> None:
    store = TableStore("memory://table", MemoryLogStore(), MemoryFileStore())
    assert staging_of(store).checkpoints("app") == ()
    with pytest.raises(txlog.UnsupportedFeatureError, match="staging"):
        staging_of(store).stage(committable())


# --- names and bytes ----------------------------------------------------------------------------------------------


def test_a_name_fits_every_file_system_and_belongs_to_one_application() -> None:
    keys = [key_of(app_id) for app_id in AWKWARD_APP_IDS]
    assert len({key.lower() for key in keys}) == len(AWKWARD_APP_IDS)
    assert all(key.isascii() and "." not in key and len(key) < 64 for key in keys)


def test_a_listing_is_grouped_by_application_and_checkpoint() -> None:
    names = [f"a-1.{2:020}.task.1.0", f"a-1.{2:020}.manifest", f"a-1.{1:020}.task.0.3", f"b-1.{1:020}.task.0.0"]
    listed = [ObjectMeta(name, 10, 1000 + number) for number, name in enumerate(names)]
    found = checkpoints_of(listed)
    assert [(each.key, each.checkpoint_id, each.is_sealed) for each in found] == [
        ("a-1", 1, False),
        ("a-1", 2, True),
        ("b-1", 1, False),
    ]
    assert found[1].names == (names[1], names[0])
    assert (found[1].modified_ms, found[1].size_bytes) == (1001, 20)


def test_a_manifest_comes_back_from_its_bytes() -> None:
    manifest = sealed(committable(task_id=1), committable(task_id=2, attempt=5), fingerprint="ä")
    assert Manifest.from_bytes(manifest.to_bytes()) == manifest
    assert manifest.to_bytes() == Manifest.from_bytes(manifest.to_bytes()).to_bytes()


@pytest.mark.parametrize(
    "change",
    [
        {"tasks": (*sealed(committable()).tasks, *sealed(committable()).tasks)},
        {"tasks": sealed(committable(task_id=2), committable(task_id=1)).tasks},
        {"checkpoint_id": -1},
        {"app_id": 5},
        {"fingerprint": 5},
    ],
    ids=[
        "task twice",
        "tasks out of order",
        "negative checkpoint",
        "app_id no text",
        "fingerprint no text",
    ],
)
def test_every_field_of_a_manifest_with_a_valid_checksum_is_checked(change: dict[str, Any]) -> None:
    wrong = replace(sealed(committable()), **change)
    with pytest.raises(txlog.InvalidInputError, match="not a txlog manifest"):
        Manifest.from_bytes(wrong.to_bytes())


def test_the_error_for_a_manifest_of_a_newer_release_says_so() -> None:
    with pytest.raises(txlog.UnsupportedFeatureError, match="format 2"):
        Manifest.from_bytes(sealed(committable()).to_bytes().replace(b"manifest 1 ", b"manifest 2 ", 1))


@pytest.mark.parametrize(
    "intent",
    [
        {"kind": "upsert", "where": None},
        {"kind": "append", "where": "a = 1"},
        {"kind": "overwrite_where", "where": None},
        {"kind": "overwrite_where", "where": 5},
        {"kind": "append"},
        "append",
    ],
)
def test_an_intent_that_does_not_exist_is_refused(intent: Any) -> None:
    manifest = replace(sealed(committable()), intent=intent)
    with pytest.raises(txlog.InvalidInputError, match="not a txlog manifest"):
        Manifest.from_bytes(manifest.to_bytes())


def test_every_intent_comes_back_from_the_bytes_of_a_manifest() -> None:
    for intent in (APPEND, OVERWRITE, OVERWRITE_PARTITIONS, WriteIntent("overwrite_where", "day = 'ü'")):
        manifest = replace(sealed(committable()), intent=intent)
        assert Manifest.from_bytes(manifest.to_bytes()).intent == intent
