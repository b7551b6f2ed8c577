"""The actors of stories: combinations of the programs of ``programs`` and ``sink_programs``.

In: nothing, or `Choices`. Out: `SCENARIOS` by name, small enough to be explored completely; `SAMPLED`; and `any_story`,
a family of scenarios: the first choices pick the table, actors and faults.
"""

from __future__ import annotations

from functools import partial

from explorer.branch_scenarios import BRANCH_SCENARIOS
from explorer.casting import CLEANERS, LOST_ANSWERS, OTHERS, actors_of, of_rows
from explorer.change_programs import (
    change_sink,
    holding_sink,
    recover_changes,
    recover_held,
    recover_sealed,
    sink_in_sequence,
    staging_change_sink,
    staging_holding_sink,
    upsert_in_sequence,
    upsert_late,
)
from explorer.definition_programs import (
    append_without_key,
    drop_note,
    exchange_names,
    follow_rows,
    rename_in_two_steps,
    rename_value,
    require_key,
    upsert_with_note,
    widen_value,
)
from explorer.definition_scenarios import DEFINITION_SCENARIOS, LARGE_DEFINITION_SCENARIOS
from explorer.export_programs import (
    delete_and_export,
    export,
    export_anew,
    foreign_iceberg_commit,
    move_on_and_export,
)
from explorer.gathering_scenarios import GATHERERS, GATHERING_SCENARIOS, LARGE_GATHERING_SCENARIOS, SLOW_S
from explorer.identity_programs import append_one_by_one, describe
from explorer.identity_scenarios import IDENTITY_SCENARIOS, LARGE_IDENTITY_SCENARIOS
from explorer.other_engines import append_unsynced, clean_up_now, move_on_and_clean_up
from explorer.programs import (
    Program,
    add_column,
    add_files,
    append,
    append_after_all_read,
    append_and_leave,
    append_and_maintain,
    append_and_resolve,
    append_beside_a_look,
    append_new_column,
    append_rows,
    append_what_no_reader_takes,
    append_what_was_read,
    checkpoint,
    clean_up_at_once,
    clean_up_later,
    compact,
    delete_files,
    end_credentials,
    hold_catalog,
    ingest,
    ingest_of_two,
    ingest_once,
    look_again,
    lose_commits,
    maintain,
    overwrite,
    overwrite_once,
    publish_versions,
    read,
    resolve_for_others,
    rewrite,
    set_properties,
    write_without_the_catalog,
)
from explorer.row_programs import (
    append_keys,
    compact_rows,
    delete_where,
    foreign_append,
    foreign_delete,
    insert_absent,
    merge_by_range,
    merge_by_terms_of_one_side,
    optimize_rows,
    overwrite_where,
    purge_rows,
    restore_rows,
    tag_version,
    update_where,
    upsert,
    upsert_in_turn,
    upsert_once,
    upsert_same_key,
    vacuum_rows,
)
from explorer.run import SERIALIZABLE, Scenario
from explorer.schedule import Choices
from explorer.sink_programs import (
    abandon,
    clean_staging_later,
    discard,
    recover,
    sink,
    staging_and_leaving,
    staging_backlog,
    staging_nothing,
    staging_sink,
)
from explorer.stream_scenarios import KEEPS_DELETED_KEYS, LARGE_STREAM_SCENARIOS, STREAM_SCENARIOS
from explorer.together_programs import (
    TOGETHER,
    append_elsewhere,
    append_in_turn,
    append_in_turn_and_leave,
    append_together,
    append_together_and_leave,
    ingest_in_turn,
    ingest_together,
    look_together,
)
from explorer.upkeep_scenarios import LARGE_SCENARIOS, LONG_RETENTION, UPKEEP_SCENARIOS

__all__ = ["SAMPLED", "SCENARIOS", "any_story"]

_HOUR_MS = 3_600_000
_TIMESTAMPS = ("delta.enableInCommitTimestamps", "true")
_ROW_TRACKING = ("delta.enableRowTracking", "true")
_CHECKPOINTS_BY_ITSELF = ("delta.checkpointInterval", "2")
_V2 = ("delta.checkpointPolicy", "v2")
_SHORT_RETENTION = (("delta.logRetentionDuration", "interval 10 seconds"), ("txlog.allowShortLogRetention", "true"))

_ingest_beside_a_look = partial(append_beside_a_look, app=("app", 1))

_SMALL = (
    Scenario("two-appenders", actors_of(append, append), faults=2, crashes=1),
    Scenario("two-appenders-object-store", actors_of(append, append), faults=1, crashes=1, store="object"),
    Scenario("two-appenders-power-cut", actors_of(append, append), crashes=1, power_cuts=1, splits_sync=True),
    Scenario("one-application-twice", actors_of(ingest_once, ingest_once, restarts=1), faults=1, crashes=1),
    Scenario("application-goes-back", actors_of(partial(ingest, first=2, last=2), partial(ingest, first=1, last=1))),
    Scenario("asks-what-became-of-it", actors_of(append_and_resolve, append), faults=2),
    Scenario("overwriter-and-appender", actors_of(overwrite, append_what_was_read), faults=1, versions=2),
    Scenario("rewriter-and-deleter", actors_of(rewrite, delete_files), faults=1, versions=2),
    Scenario("serializable-reader", actors_of(append_after_all_read, append), faults=1, versions=2),
    Scenario("three-appenders", actors_of(append, append, overwrite), versions=2),
    Scenario("definition-changes", actors_of(set_properties, append, append), versions=2),
    Scenario(
        "definition-changes-lying-lists", actors_of(set_properties, append, append), faults=1, kinds=("hole", "stale")
    ),
    Scenario("rows-are-numbered", actors_of(append, append), faults=1, properties=(_ROW_TRACKING,)),
    Scenario("clocks-differ", actors_of(append, append, behind_ms=-_HOUR_MS), properties=(_TIMESTAMPS,)),
    Scenario("checkpointer", actors_of(checkpoint, append, read), versions=2),
    Scenario("checkpointer-power-cut", actors_of(append, checkpoint), power_cuts=1, splits_sync=True),
    Scenario("compactor-power-cut", actors_of(append, compact, restarts=1), power_cuts=1, splits_sync=True, versions=2),
    Scenario("cleaner", actors_of(maintain, append), versions=3, deletes=True),
    Scenario("cleaner-of-a-young-log", actors_of(clean_up_at_once, append), versions=2, deletes=True),
    Scenario("cleaner-after-a-crash", actors_of(checkpoint, clean_up_later), crashes=1, versions=3, deletes=True),
    Scenario("sink-and-recovery", actors_of(staging_sink, recover)),
    Scenario("sink-restarts", actors_of(staging_sink, restarts=1), faults=1, crashes=1),
    Scenario("sink-power-cut", actors_of(staging_sink, restarts=1), crashes=1, power_cuts=1, splits_sync=True),
    Scenario("sink-and-cleaner-of-staging", actors_of(staging_and_leaving, clean_staging_later)),
    Scenario("sink-whose-checkpoint-is-discarded", actors_of(staging_and_leaving, discard), crashes=1),
    Scenario("sink-and-appender-power-cut", actors_of(append, staging_sink), power_cuts=1, splits_sync=True),
    Scenario("cleaner-and-sleeper", actors_of(maintain, append), versions=3, unseen=2, deletes=True),
    Scenario("long-lived-reader", actors_of(look_again, clean_up_now), versions=3, aged=True, deletes=True),
    Scenario(
        "long-lived-writer-that-reads",
        actors_of(append_what_was_read, clean_up_now),
        versions=3,
        aged=True,
        deletes=True,
        store="object",
    ),
    Scenario(
        "others-sync-nothing", actors_of(append, append_unsynced), power_cuts=1, splits_sync=True, versions=2, unseen=1
    ),
    Scenario("sink-beside-others-that-sync-nothing", actors_of(staging_sink, append_unsynced), power_cuts=1),
    Scenario(
        "checkpointer-beside-others-that-sync-nothing",
        actors_of(checkpoint, append_unsynced),
        power_cuts=1,
        splits_sync=True,
    ),
    Scenario(
        "writer-dies-below-others-that-sync-nothing",
        actors_of(append, append_unsynced, restarts=1),
        crashes=1,
        splits_sync=True,
    ),
    Scenario(
        "refused-while-a-put-is-in-flight",
        actors_of(set_properties, append),
        faults=2,
        kinds=("late",),
        power_cuts=1,
    ),
    Scenario("files-that-no-reader-takes", actors_of(append_what_no_reader_takes, append)),
    Scenario("observers-fail", actors_of(append_rows, append), faults=2, kinds=("fail_after",), observers_fail=True),
    Scenario(
        "short-retention",
        actors_of(append, move_on_and_clean_up),
        versions=2,
        deletes=True,
        store="object",
        properties=_SHORT_RETENTION,
    ),
    Scenario(
        "append-beside-a-look",
        actors_of(append_beside_a_look, set_properties, append),
        store="object",
        asks_beside=True,
    ),
    Scenario(
        "checkpoint-beside-a-look-twice",
        actors_of(_ingest_beside_a_look, _ingest_beside_a_look, restarts=1),
        crashes=1,
        store="object",
        asks_beside=True,
    ),
    Scenario("rows-are-numbered-on-a-checkpoint", actors_of(checkpoint, append), properties=(_ROW_TRACKING, _V2)),
    Scenario(
        "suspended-before-its-put",
        actors_of(append_and_maintain, append, sleep=True),
        store="object",
        deletes=True,
    ),
)

_OWNED = tuple(
    Scenario(name, actors_of(*programs), faults=faults, crashes=crashes, store="object", versions=2, owned=True)
    for name, programs, faults, crashes in (
        ("an-owner-decides-between-appenders", (append, append), 1, 1),
        ("an-owner-decides-between-changes", (overwrite, append_what_was_read), 1, 0),
        ("an-owner-is-asked-what-became-of-it", (append_and_resolve, append), 1, 0),
        ("an-owner-and-a-publisher-that-dies", (append, publish_versions), 1, 1),
        ("an-owner-a-publisher-and-a-reader", (append, publish_versions, read), 0, 0),
    )
)
"""Somebody else decides the versions of these tables."""

_made_again = partial(hold_catalog, why="dropped", then="made again")

_OF_CATALOGS = tuple(
    Scenario(
        name,
        actors_of(*programs),
        faults=faults,
        crashes=crashes,
        store="object",
        kinds=LOST_ANSWERS,
        owned=True,
        catalog=catalog,
        vends=end_credentials in programs,
        properties=(_TIMESTAMPS,),
    )
    for name, programs, faults, crashes, catalog in (
        ("a-catalog-decides-between-appenders", (append, append), 1, 1, "remembers"),
        ("a-catalog-that-refuses-repeats", (partial(append, times=2), append), 1, 0, "forgets"),
        ("a-catalog-is-asked-what-became-of-it", (append_and_resolve, append), 1, 0, "forgets"),
        ("a-catalog-and-a-publisher-that-dies", (partial(append, times=2), publish_versions), 1, 1, "forgets"),
        ("a-catalog-whose-locks-clash", (append, append, partial(hold_catalog, why="clash")), 1, 0, "remembers"),
        ("a-catalog-whose-tokens-expire", (append, partial(hold_catalog, why="expired")), 1, 0, "forgets"),
        ("a-catalog-that-renews-credentials", (append, append, end_credentials), 1, 0, "forgets"),
        ("a-catalog-that-drops-the-table", (append, append, partial(hold_catalog, why="dropped")), 1, 0, "remembers"),
        (
            "a-catalog-that-renames-the-table",
            (append_and_resolve, partial(hold_catalog, why="renamed")),
            1,
            0,
            "forgets",
        ),
        ("a-catalog-that-makes-the-table-again", (append, append, _made_again), 1, 0, "remembers"),
        ("a-catalog-and-a-stray-file", (append, write_without_the_catalog, read), 0, 0, "remembers"),
        ("a-catalog-that-loses-a-commit", (append, append, lose_commits), 1, 0, "loses"),
        (
            "a-catalog-that-loses-commits",
            (partial(append, times=2), append, partial(lose_commits, times=2)),
            0,
            1,
            "loses",
        ),
    )
)
"""The same with txlog's client of a catalog: commits are staged, accepted and published."""

_COPIES = ("delta.enableDeletionVectors", "false")


_other_changes = partial(change_sink, app_id="other changes", number=1)


_OF_ROWS = (
    of_rows("two-upserters-of-one-key", upsert_same_key, upsert_same_key, faults=1, kinds=LOST_ANSWERS),
    of_rows("upserter-and-appenders-of-its-key", upsert, append_keys, foreign_append),
    of_rows("upserter-and-compactor", upsert, compact_rows, versions=5, faults=1, kinds=LOST_ANSWERS),
    of_rows("upserter-and-optimizer", upsert, optimize_rows, versions=5),
    of_rows("deleter-and-updater", delete_where, update_where, faults=1, kinds=LOST_ANSWERS),
    of_rows("two-deleters-of-one-row", delete_where, delete_where, faults=1, kinds=LOST_ANSWERS),
    of_rows("upserter-power-cut", upsert, delete_where, power_cuts=1, splits_sync=True),
    of_rows("upserter-restarts", upsert_once, restarts=1, faults=1, crashes=1),
    of_rows("inserter-beside-other-engines", insert_absent, foreign_delete, compact_rows, versions=5),
    of_rows("range-merger-and-appender", merge_by_range, append_keys),
    of_rows("range-merger-and-deleter", merge_by_range, delete_where, properties=(_COPIES,)),
    of_rows("merger-and-appender-of-its-keys", merge_by_terms_of_one_side, append_keys),
    of_rows("range-merger-and-merger", merge_by_range, merge_by_terms_of_one_side),
    of_rows("upserter-in-turn-and-deleter", upsert_in_turn, delete_where),
    of_rows("upserter-in-turn-that-copies-and-updater", upsert_in_turn, update_where, properties=(_COPIES,)),
    of_rows("overwriter-and-upserter", overwrite_where, upsert),
    of_rows("updater-upserter-and-deleter", update_where, upsert, delete_where),
    of_rows("updater-and-deleter-that-copy", update_where, delete_where, foreign_append, properties=(_COPIES,)),
    of_rows("change-sink-and-its-twin", change_sink, change_sink),
    of_rows("two-change-sinks", change_sink, _other_changes),
    of_rows("change-sink-and-compactor", change_sink, compact_rows, versions=5, faults=1, kinds=LOST_ANSWERS),
    of_rows("change-sink-that-copies", change_sink, foreign_append, properties=(_COPIES,)),
    of_rows("change-sink-power-cut", staging_change_sink, restarts=1, power_cuts=1, splits_sync=True),
    of_rows("change-sink-restarts", staging_change_sink, restarts=1, crashes=1),
    of_rows("change-sink-and-recovery", staging_change_sink, recover_changes),
)

SCENARIOS = {
    scenario.name: scenario
    for scenario in (
        *(*_SMALL, *_OWNED, *GATHERING_SCENARIOS, *_OF_ROWS),
        *(*DEFINITION_SCENARIOS, *IDENTITY_SCENARIOS, *STREAM_SCENARIOS, *UPKEEP_SCENARIOS),
    )
}
"""Scenarios small enough to be explored completely."""

_LARGE = (
    of_rows("two-upserters-in-turn", upsert_in_turn, upsert_in_turn),
    Scenario(
        "append-beside-a-look-of-a-short-log",
        actors_of(append_beside_a_look, move_on_and_clean_up),
        versions=2,
        deletes=True,
        store="object",
        properties=_SHORT_RETENTION,
        asks_beside=True,
    ),
)

SAMPLED = {
    scenario.name: scenario
    for scenario in (
        *(*_OF_CATALOGS, *_LARGE, *LARGE_DEFINITION_SCENARIOS, *LARGE_IDENTITY_SCENARIOS),
        *(*LARGE_STREAM_SCENARIOS, *LARGE_SCENARIOS),
        *(*TOGETHER, *LARGE_GATHERING_SCENARIOS, *BRANCH_SCENARIOS),
    )
}
"""Scenarios of which only some schedules are explored."""

_LIGHT: tuple[Program, ...] = (
    append,
    partial(append, times=2),
    partial(append, fresh=True),
    append_and_leave,
    append_and_resolve,
    resolve_for_others,
    ingest,
    partial(ingest, app_id="other"),
    ingest_of_two,
    set_properties,
    add_column,
)
"""Programs that read and write no data file: a thousand stories a second."""

_ROWS: tuple[Program, ...] = (
    append,
    append_what_was_read,
    append_after_all_read,
    append_new_column,
    add_files,
    overwrite,
    overwrite_once,
    delete_files,
    rewrite,
    sink,
    partial(sink, app_id="other"),
    partial(sink, app_id="swaps", mode="overwrite"),
    add_column,
    read,
)

_SINKS: tuple[Program, ...] = (
    partial(staging_sink, app_id="staged"),
    partial(staging_and_leaving, app_id="staged"),
    partial(staging_backlog, app_id="staged"),
    partial(recover, app_id="staged"),
    partial(discard, app_id="staged"),
    partial(abandon, app_id="staged"),
    partial(staging_sink, app_id="swapped", mode="overwrite"),
    partial(recover, app_id="swapped"),
    staging_nothing,
    partial(recover, app_id="quiet"),
    clean_staging_later,
    append,
    add_column,
    set_properties,
)

_LOG: tuple[Program, ...] = (
    append,
    partial(append, times=2),
    append_and_resolve,
    resolve_for_others,
    overwrite,
    ingest,
    compact,
    checkpoint,
    maintain,
    append_and_maintain,
    clean_up_at_once,
    read,
)

_AMONG_OTHERS: tuple[Program, ...] = (
    *OTHERS,
    look_again,
    append_what_no_reader_takes,
    append,
    partial(append, times=2),
    append_rows,
    append_and_resolve,
    append_what_was_read,
    overwrite,
    ingest,
    checkpoint,
    maintain,
    export,
    partial(staging_sink, app_id="staged"),
    partial(recover, app_id="staged"),
)
"""Programs for tables shared with other engines, which write neither row ids nor in-commit timestamps."""

_ROW_CHANGES: tuple[Program, ...] = (
    upsert,
    upsert_in_turn,
    upsert_same_key,
    upsert_once,
    insert_absent,
    merge_by_range,
    merge_by_terms_of_one_side,
    delete_where,
    update_where,
    overwrite_where,
    change_sink,
    partial(change_sink, app_id="other changes", number=1),
    partial(staging_change_sink, app_id="staged changes", number=2),
    partial(recover_changes, app_id="staged changes", number=2),
    partial(abandon, app_id="staged changes"),
    holding_sink,
    partial(staging_holding_sink, app_id="staged and held"),
    partial(recover_held, app_id="staged and held"),
    append_keys,
    optimize_rows,
    purge_rows,
    compact_rows,
    foreign_delete,
    foreign_append,
    append,
    append_unsynced,
    set_properties,
    checkpoint,
    maintain,
    read,
)
"""Programs that change rows of a table with rows, alongside other engines."""

_UPKEEP: tuple[Program, ...] = (
    recover_sealed,
    recover_sealed,
    vacuum_rows,
    vacuum_rows,
    restore_rows,
    tag_version,
    optimize_rows,
    purge_rows,
    upsert,
    delete_where,
    append_keys,
    change_sink,
    holding_sink,
    partial(abandon, app_id="staged changes"),
    partial(staging_change_sink, app_id="staged changes", number=2),
    partial(recover_changes, app_id="staged changes", number=2),
    export,
    export_anew,
    delete_and_export,
    move_on_and_export,
    foreign_iceberg_commit,
)
"""Those that meet on a table with sealed work, a removed file and Iceberg metadata. No days pass: vacuums insist."""

_IN_SEQUENCE: tuple[Program, ...] = (
    upsert_in_sequence,
    upsert_in_sequence,
    upsert_late,
    upsert_late,
    sink_in_sequence,
    partial(abandon, app_id="in sequence"),
    optimize_rows,
    optimize_rows,
    checkpoint,
    clean_up_at_once,
    set_properties,
    read,
)
"""Those of a table that keeps deleted keys. A purge would drop them, as it should."""

_BESIDE_AN_OWNER: tuple[Program, ...] = (
    append,
    partial(append, times=2),
    append_and_resolve,
    resolve_for_others,
    append_what_was_read,
    overwrite,
    ingest,
    set_properties,
    publish_versions,
    publish_versions,
    read,
)
"""Programs on a table whose versions an owner decides."""

_ALONGSIDE: tuple[Program, ...] = (
    append_and_resolve,
    resolve_for_others,
    ingest,
    overwrite,
    set_properties,
    add_column,
    checkpoint,
)
"""Programs of other processes, alongside those whose appends share versions."""

_TOGETHER: tuple[Program, ...] = (
    append_together,
    append_together,
    partial(append_together, times=2),
    append_together_and_leave,
    look_together,
    ingest_together,
    partial(ingest_together, app_id="other"),
    append,
    *_ALONGSIDE,
)
"""Threads of one process that share a handle, alongside other processes."""

_IN_TURN: tuple[Program, ...] = (
    append_in_turn,
    append_in_turn,
    partial(append_in_turn, times=2),
    append_in_turn_and_leave,
    ingest_in_turn,
    append_elsewhere,
    partial(append_elsewhere, times=2),
    *_ALONGSIDE,
)
"""Processes of one machine, which queue and hand their appends over, alongside those of another machine."""

_NUMBERS: tuple[Program, ...] = (
    append_keys,
    append_one_by_one,
    describe,
    upsert,
    insert_absent,
    delete_where,
    update_where,
    overwrite_where,
    optimize_rows,
    restore_rows,
    compact_rows,
)
"""Programs of a table that counts its rows."""

_COLUMNS: tuple[Program, ...] = (
    rename_value,
    rename_in_two_steps,
    exchange_names,
    drop_note,
    widen_value,
    require_key,
    append_without_key,
    follow_rows,
    upsert_with_note,
    append_keys,
    optimize_rows,
    set_properties,
    checkpoint,
    read,
)
"""Programs on a table whose columns change. Deletes would have to compare keys that may be null."""

_CASTS = (
    _LIGHT,
    _ROWS,
    _SINKS,
    _LOG,
    _AMONG_OTHERS,
    _ROW_CHANGES,
    _UPKEEP,
    _IN_SEQUENCE,
    _BESIDE_AN_OWNER,
    _TOGETHER,
    _IN_TURN,
    _COLUMNS,
    _NUMBERS,
    GATHERERS,
    tuple(dict.fromkeys((*_LIGHT, *_ROWS, *_SINKS, *_LOG))),
)
"""Groups of programs that affect each other most; the last group is all programs."""

_OTHER_ENGINES = frozenset({append_unsynced, compact_rows, foreign_append, foreign_delete})
"""They commit without a sync. By its age, txlog takes such a commit for written to disk (docs/guarantees.md)."""

_TABLES: tuple[tuple[tuple[str, str], ...], ...] = (
    (),
    (_TIMESTAMPS,),
    (_ROW_TRACKING,),
    (_V2,),
    (_ROW_TRACKING, _V2),
    (_CHECKPOINTS_BY_ITSELF,),
    (SERIALIZABLE,),
)


_TABLES_OF_ROWS = ((), (_COPIES,), (_V2,), (_CHECKPOINTS_BY_ITSELF,), (SERIALIZABLE,))
_TABLES_OF_UPKEEP = ((LONG_RETENTION,), (LONG_RETENTION, SERIALIZABLE))
_TABLES_OF_ALL = ((), (_V2,), (_CHECKPOINTS_BY_ITSELF,), (SERIALIZABLE,), _SHORT_RETENTION)
_TABLES_IN_SEQUENCE = (KEEPS_DELETED_KEYS, (*KEEPS_DELETED_KEYS, _V2))
_TABLES_OF_AN_OWNER = ((), (_TIMESTAMPS,), (_ROW_TRACKING,), (SERIALIZABLE,))
_TABLES_OF = {
    _ROW_CHANGES: _TABLES_OF_ROWS,
    _UPKEEP: _TABLES_OF_UPKEEP,
    _IN_SEQUENCE: _TABLES_IN_SEQUENCE,
    _BESIDE_AN_OWNER: _TABLES_OF_AN_OWNER,
    _COLUMNS: _TABLES_OF_ROWS,
    _NUMBERS: _TABLES_OF_ROWS,
}


def any_story(choices: Choices) -> Scenario:
    """Two to four actors, up to three faults, two crashes and a power cut, on one of a few kinds of table."""
    cast = _CASTS[choices.choose(len(_CASTS), calm=0.65)]
    programs = [cast[choices.choose(len(cast))] for _ in range(2 + choices.choose(3))]
    is_upkeep, is_owned, is_mapped = cast is _UPKEEP, cast is _BESIDE_AN_OWNER, cast is _COLUMNS
    is_counted = cast is _NUMBERS
    gathers = cast is GATHERERS
    queues = cast is _IN_TURN or (gathers and bool(choices.choose(2)))
    has_others = cast in (_AMONG_OTHERS, _ROW_CHANGES, _UPKEEP)
    clocks_agree = has_others or not set(programs).isdisjoint(_OTHER_ENGINES)
    tables = _TABLES_OF.get(cast, _TABLES_OF_ALL if has_others else _TABLES)
    properties = tables[choices.choose(len(tables), calm=0.75)]
    by_itself = _CHECKPOINTS_BY_ITSELF in properties
    return Scenario(
        "any",
        actors_of(
            *programs,
            restarts=choices.choose(2),
            all_checkpoint=by_itself,
            behind_ms=0 if clocks_agree else (0, _HOUR_MS, -_HOUR_MS)[choices.choose(3, calm=0.7)],
            sleep=bool(choices.choose(2, calm=0.7)),
        ),
        faults=choices.choose(4),
        crashes=choices.choose(3),
        power_cuts=choices.choose(2, calm=0.5),
        store="object" if is_owned or gathers or queues else ("local", "object")[choices.choose(2)],
        deletes=by_itself or not set(programs).isdisjoint(CLEANERS),
        pauses=bool(choices.choose(2)),
        splits_sync=bool(choices.choose(2)),
        observers_fail=bool(choices.choose(2, calm=0.8)),
        versions=4 if is_upkeep or is_counted else 1 + choices.choose(3),
        aged=is_upkeep or bool(choices.choose(2, calm=0.6)),
        properties=properties,
        has_rows=is_upkeep or is_mapped or is_counted or cast in (_ROW_CHANGES, _IN_SEQUENCE),
        trimmed=is_upkeep,
        sealed=is_upkeep,
        exported=is_upkeep,
        owned=is_owned,
        catalog=("", "remembers", "forgets")[choices.choose(3)] if is_owned else "",
        mapped=is_mapped,
        counted=is_counted,
        asks_beside=True,
        gathers=gathers,
        queues=queues,
        round_trip_s=SLOW_S if gathers else 0.0,
    )
