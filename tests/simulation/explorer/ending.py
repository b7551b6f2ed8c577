"""What must still be possible after a story: each sealed checkpoint can be recovered, and exports can catch up.

In: a `Run` that is over. Out: nothing, or `InvariantBroken`. One more process does what an operator would do next,
without any fault, whatever the actors did and suffered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from explorer.session import Clock, see_others
from explorer.versions import InvariantBroken
from explorer.world import BASE_MS, FILE_BYTES, opened
from txlog.errors import IcebergExportError, InvalidInputError, MetadataChangedError, TxlogError
from txlog.protocol.actions import AddFile
from txlog.sink.sink import Sink
from txlog.store.table_store import TableStore
from txlog.util import ambient
from txlog.verify.iceberg import check_iceberg

if TYPE_CHECKING:
    from explorer.run import Run

__all__ = ["export_what_was_exported", "gather_what_waits", "recover_what_is_sealed"]

_PENDING_DAYS_MAX = 3  # half of the default of delta.deletedFileRetentionDuration


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
