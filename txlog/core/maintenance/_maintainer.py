"""`Maintainer`: regular maintenance of a table, in rounds, for applications whose writers only write.

In: an open table and `MaintenanceOptions`. Out: a `MaintenanceResult` of each round:

0. a transaction over several tables that its writer has left is ended in this one;
1. partitions with many small files are compacted, by the thresholds of auto compaction;
2. a checkpoint is written if one is due;
3. if the property ``txlog.keyIndex`` names key columns, the keys of data files that lack it are kept beside the table;
4. at most once an hour: the log is cleaned up, what crashed writers left for others is deleted, and a vacuum runs if
   the last one was long ago.

If a step fails, the other steps still run, and the next round tries it again. Any number of maintainers may run at the
same time, alongside any writers: each step is safe by itself. `_last_vacuum_info`, which every vacuum writes, holds the
time of the last vacuum.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NoReturn, TypeVar

import msgspec

from txlog.core import ambient
from txlog.core.maintenance._auto_compaction import SMALL_FILES_MIN
from txlog.core.maintenance._key_index import keep_keys
from txlog.core.maintenance._last_vacuum import LAST_VACUUM
from txlog.core.maintenance._offered_appends import delete_dead_offers
from txlog.core.maintenance._optimize import optimize
from txlog.core.maintenance._vacuum import HOUR_MS, VacuumOptions, vacuum
from txlog.core.progress import OnProgress, progress_of, step
from txlog.core.util import invalid, logger, whole_number
from txlog.core.versions import OpenTable, clean_up_log, write_checkpoint_and_checksum
from txlog.core.versions.decisions.state import TableState
from txlog.errors import NotFoundError, StorageError, TxlogError, UnsupportedFeatureError
from txlog.result.maintenance import LogCleanUp, MaintenanceResult, RewriteResult

Done = TypeVar("Done")


class MaintenanceOptions(msgspec.Struct, frozen=True):
    """The arguments of `Table.maintain`."""

    small_files_min: int = SMALL_FILES_MIN
    max_bytes: int | None = None
    vacuum_every_hours: float | None = 24
    dry_run: bool = False

    def check(self) -> None:
        """Raises InvalidInputError."""
        whole_number("small_files_min", self.small_files_min, at_least=1)
        if self.max_bytes is not None:
            whole_number("max_bytes", self.max_bytes, at_least=1)
        _check_number("vacuum_every_hours", self.vacuum_every_hours)


class Maintainer:
    """Maintains one table, one round at a time. For one thread."""

    def __init__(self, open_table: OpenTable, options: MaintenanceOptions, on_step: OnProgress | None = None) -> None:
        with TxlogError.located(open_table.uri):
            options.check()
        self._open_table = open_table
        self._options = options
        self._on_step = progress_of(on_step)
        self._hourly_from_ms = 0
        self._failures: dict[str, TxlogError] = {}

    def round(self) -> MaintenanceResult:
        """Do what is due now. Raises only if the table cannot be read, or needs a feature that this release lacks."""
        self._failures = {}
        state = self._open_table.log.newest_state()
        self._open_table.check_maintainable(state)
        if not self._options.dry_run:
            self._open_table.log.require_maintained_here("maintenance")
            self._step("transactions over several tables", lambda: self._open_table.settle(state))
        compaction = self._step("compaction", self._compact)
        checkpoint = self._step("checkpoint", self._checkpoint)
        keys = self._step("key index", self._keep_keys)
        cleaned_up, vacuumed = None, None
        now_ms = ambient.now_ms()
        if now_ms >= self._hourly_from_ms:
            cleaned_up = self._step("log clean-up", self._clean_up)
            if not self._options.dry_run:
                self._step("offered appends", lambda: delete_dead_offers(self._open_table.store, now_ms))
            if self._step("vacuum", self._vacuum_is_due):
                options = VacuumOptions(dry_run=self._options.dry_run)
                vacuumed = self._step("vacuum", lambda: vacuum(self._open_table, options, self._on_step))
            if not self._failures.keys() & {"log clean-up", "offered appends", "vacuum"}:
                self._hourly_from_ms = now_ms + HOUR_MS
        return MaintenanceResult(
            version=self._open_table.log.newest_state(refresh=False).version,
            compaction=compaction,
            checkpoint=checkpoint,
            key_files=keys or 0,
            log_clean_up=cleaned_up,
            vacuum=vacuumed,
            failures=self._failures,
            dry_run=self._options.dry_run,
        )

    def _step(self, name: str, step: Callable[[], Done]) -> Done | None:
        try:
            return step()
        except TxlogError as error:
            logger.warning("%s: %s failed, and is tried again in the next round: %s", self._open_table.uri, name, error)
            self._failures[name] = error
            return None

    def _compact(self) -> RewriteResult:
        return optimize(
            self._open_table,
            max_bytes=self._options.max_bytes,
            files_min=self._options.small_files_min,
            dry_run=self._options.dry_run,
            is_automatic=True,
            on_progress=self._on_step,
        )

    def _checkpoint(self) -> int | None:
        state = self._state_whose_log_is_ours()
        log = self._open_table.log
        if state is None or not log.checkpoint_is_due(state):
            return None
        return state.version if self._options.dry_run else write_checkpoint_and_checksum(log, state)

    def _keep_keys(self) -> int:
        def on_progress(done: int, total: int) -> None:
            self._on_step("keeping keys of files", done, total)

        state = self._open_table.log.newest_state()
        return keep_keys(self._open_table, state, on_progress, dry_run=self._options.dry_run)

    def _clean_up(self) -> LogCleanUp | None:
        state = self._state_whose_log_is_ours()
        if state is None or not state.properties.enable_expired_log_cleanup:
            return None
        return clean_up_log(
            self._open_table.log,
            state,
            dry_run=self._options.dry_run,
            on_progress=step(self._on_step, "deleting files of the log"),
        )

    def _state_whose_log_is_ours(self) -> TableState | None:
        """The newest version; None if its writers need a feature that this release lacks: they maintain the log."""
        state = self._open_table.log.newest_state()
        try:
            self._open_table.check_writable(state)
        except UnsupportedFeatureError:
            return None
        return state

    def _vacuum_is_due(self) -> bool:
        every_hours = self._options.vacuum_every_hours
        if every_hours is None:
            return False
        log, now_ms = self._open_table.log, ambient.now_ms()
        try:
            last_ms = log.store.log.stat(LAST_VACUUM).modified_ms
        except NotFoundError:
            last_ms = 0
        if now_ms - last_ms < every_hours * HOUR_MS:
            return False
        state = log.newest_state()
        # The log begins within the retention, so no file can be past it.
        return log.newest_version_until(now_ms - state.properties.deleted_file_retention_ms, state) is not None


def watch(maintainer: Maintainer, interval_s: float, on_round: Callable[[MaintenanceResult], object]) -> NoReturn:
    """Run rounds, each ``interval_s`` after the end of the last, until an exception such as KeyboardInterrupt.

    A store that does not answer does not end it: the next round tries again. Raises whatever else `Maintainer.round`
    raises.
    """
    _check_number("interval_s", interval_s)
    while True:
        try:
            done = maintainer.round()
        except StorageError as error:
            done = MaintenanceResult(None, failures={"table": error})
        on_round(done)
        ambient.sleep(interval_s)


def _check_number(name: str, number: object) -> None:
    if number is None:
        return
    if isinstance(number, bool) or not isinstance(number, int | float) or not 0 < number < math.inf:
        raise invalid(name, number, "a number greater than 0")
