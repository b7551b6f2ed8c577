"""Writes the version checksum file of a version: exact totals, or no file at all.

In: a table state. Out: ``N.crc``, never overwritten. The totals come from the previous checksum file and from what each
later commit declares. If that chain is broken, they are counted in a checkpoint. A wrong number would make Spark refuse
the table. PROTOCOL.md, "Version Checksum File".
"""

from __future__ import annotations

import pyarrow.compute as pc

from txlog.core.format.log_names import checksum_name
from txlog.core.util import logger
from txlog.core.versions.decisions.checksum import checksum_bytes
from txlog.core.versions.decisions.segment import CheckpointFiles
from txlog.core.versions.decisions.state import TableState, Totals
from txlog.core.versions.files import CheckpointReader, DeltaLog
from txlog.errors import TxlogError


def write_checkpoint_and_checksum(log: DeltaLog, state: TableState) -> int:
    """Write a checkpoint of ``state`` and its checksum file, and return the version.

    A failure of the checksum file is only logged. Raises what `DeltaLog.write_checkpoint` raises.
    """
    version = log.write_checkpoint(state)
    try:
        write_checksum(log, state)
    except TxlogError as error:
        logger.warning("%s: the checksum file of v%d was not written: %s", log.uri, version, error)
    return version


def write_checksum(log: DeltaLog, state: TableState, txn_id: str | None = None) -> bool:
    """Write ``N.crc`` for ``state`` if its totals are known; return whether they are.

    If they are unknown and this version has a checkpoint, they are counted there, and the log keeps them.
    Raises ``StorageError``, ``CorruptLogError``, ``NotFoundError``.
    """
    known = log.newest_state(refresh=False)
    totals = state.totals or (known.totals if known.version == state.version else None)
    if totals is None:
        checkpoint = known.segment.checkpoint
        if checkpoint is None or checkpoint.version != state.version:
            return False
        totals = _counted(log, checkpoint)
        log.learn_totals(state.version, totals)
    log.store.log.put_if_absent(checksum_name(state.version), checksum_bytes(state, totals, txn_id))
    return True


def _counted(log: DeltaLog, checkpoint: CheckpointFiles) -> Totals:
    num_files = size_bytes = 0
    for batch in CheckpointReader(log.store, log.limits).adds(checkpoint, statistics=False):
        num_files += batch.num_rows
        size_bytes += pc.sum(batch.column("size")).as_py() or 0
    return Totals(num_files, size_bytes)
