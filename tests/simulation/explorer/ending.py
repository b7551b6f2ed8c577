"""What must still be possible after a story: each sealed checkpoint can be recovered, and exports can catch up.

In: a `Run` that is over. Out: nothing, or `InvariantBroken`. One more process does what an operator would do next,
without any fault, whatever the actors did and suffered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from explorer.catalog_model import CatalogBook, versions_of
from explorer.group_programs import GROUPED, group_of, stage_group
from explorer.session import Actor, Clock, Session, see_others
from explorer.versions import InvariantBroken
from explorer.world import BASE_MS, FILE_BYTES, GROUP, opened
from txlog.core import ambient
from txlog.core.format.actions import AddFile
from txlog.core.sink._sink import Sink
from txlog.core.store._table_store import TableStore
from txlog.errors import IcebergExportError, InvalidInputError, MetadataChangedError, TxlogError
from txlog.iceberg.verify import check_iceberg

if TYPE_CHECKING:
    from explorer.run import Run

__all__ = [
    "export_what_was_exported",
    "gather_what_waits",
    "mend_what_was_lost",
    "recover_groups",
    "recover_what_is_sealed",
]

_PENDING_DAYS_MAX = 3  # half of the default of delta.deletedFileRetentionDuration


def mend_what_was_lost(run: Run) -> None:
    """A catalog that has lost commits gets back what is published, and what it has now is published."""
    book = run.world.owner
    if not isinstance(book, CatalogBook) or not book.loses:
        return
    with ambient.use(Clock(251)):
        versions = versions_of(book, book, run.world.log)
        try:
            versions.mend(give_up=True)
            versions.publish(max(versions.tail(-1)))
        except TxlogError as error:
            raise InvariantBroken("what a catalog has lost can be given back", str(error)) from error
        if versions.forks():
            raise InvariantBroken("what a catalog has lost can be given back", str(versions.forks()))
    run.check()


def recover_what_is_sealed(run: Run) -> None:
    """Check that a recovery commits each checkpoint that was reported as sealed, and does not fail."""
    app_ids = sorted(run.ledger.app_ids_of_seals())
    if not app_ids:
        return
    excused = set()
    with ambient.use(Clock(255)):
        table = opened(_store(run), None, {})
        for app_id in app_ids:
            try:
                Sink(table, app_id).recover()
            except TxlogError as error:
                is_late = run.scenario.deletes or run.days_passed >= _PENDING_DAYS_MAX
                is_too_old = is_late and isinstance(error, (InvalidInputError, MetadataChangedError))
                if not is_too_old:
                    raise InvariantBroken("what was sealed is recovered", str(error)) from error
                excused.add(app_id)
    run.check()
    run.ledger.require_sealed_committed(excused)


def recover_groups(run: Run) -> None:
    """Check that a group's checkpoint is in all of its tables or in none, that a sealed one which nobody gave up is in
    all, and that the next one can be written."""
    assert run.world.second is not None
    clock = Clock(251)
    session = Session(run, Actor("last", lambda session: None), clock)
    with ambient.use(clock):
        try:
            group = group_of(session)
            for recovery in group.recover():
                for checkpoint_id in recovery.partial:
                    group.discard(checkpoint_id)
            _require_whole(run)
            done = group.last_checkpoint_id()
            for checkpoint_id in range(0 if done is None else done + 1, max(GROUPED) + 1):
                stage_group(session, group, checkpoint_id, 251)
                if not group.prepare(checkpoint_id, [{0: 251}] * 2):
                    raise InvariantBroken("a stream goes on", f"{checkpoint_id} is in a table after a recovery")
                run.check()  # looks at what is staged
                group.commit(checkpoint_id)
        except TxlogError as error:
            raise InvariantBroken("what was sealed is recovered", str(error)) from error
    run.check()
    _require_whole(run)


def _require_whole(run: Run) -> None:
    assert run.world.second is not None
    run.check()
    ledgers = run.ledger, run.world.second.ledger
    for checkpoint_id, rows in GROUPED.items():
        work = (GROUP[0], checkpoint_id)
        wanted = [ledger for ledger, number in zip(ledgers, rows, strict=True) if number]
        having = [ledger for ledger in wanted if ledger.has_rows_of(work)]
        was_abandoned = any(work in ledger.apps and ledger not in having for ledger in wanted)
        if was_abandoned and work not in run.ledger.discarded:
            raise InvariantBroken("a group's checkpoint is in all of its tables or in none", f"{work} has no rows")
        if having and len(having) < len(wanted) and not was_abandoned:
            raise InvariantBroken("a group's checkpoint is in all of its tables or in none", f"{work} is in one only")
        is_kept = work in run.ledger.sealed and work not in run.ledger.discarded
        if is_kept and len(having) < len(wanted):
            raise InvariantBroken("what was sealed is recovered", f"{work} is not in its tables after a recovery")


def export_what_was_exported(run: Run) -> None:
    """One more export brings Iceberg readers to the newest version: a rebuild, if another Iceberg writer committed."""
    exports = run.ledger.exports
    if not exports.versions:
        return
    store = _store(run)
    with ambient.use(Clock(254)):
        exporter = opened(store, None, {})
        try:
            exporter.export_iceberg()
        except IcebergExportError as error:
            if not exports.newest_is_foreign:
                raise InvariantBroken("an export catches up", str(error)) from error
            exporter.export_iceberg(rebuild=True)
        run.check()
        exports.require_newest_is_hinted()
        for problem in check_iceberg(store):
            raise InvariantBroken("an export catches up", problem.message)


def gather_what_waits(run: Run) -> None:
    """One more writer that read the whole log commits all that may still be committed, and nothing else lands."""
    with ambient.use(Clock(252)):
        table = opened(_store(run), None, {})
        see_others(table)
        path = "part=a/last.parquet"
        run.world.files.publish(path, FILE_BYTES)
        run.world.files.make_durable([path])
        with table.transaction() as txn:
            txn._builder.add(AddFile(path, {"part": "a"}, len(FILE_BYTES), BASE_MS, True, '{"numRecords":1}'))
    run.check()


def _store(run: Run) -> TableStore:
    world = run.world
    waiting = world.waiting if run.scenario.gathers else None
    return TableStore("memory://table", world.log, world.files, world.staging, iceberg=world.iceberg, waiting=waiting)
