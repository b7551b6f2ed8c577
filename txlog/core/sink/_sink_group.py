"""`SinkGroup`: one application's checkpoints in several tables. Each table gets each checkpoint once, and all get it.

In: a `Sink` for each table, whose tasks stage as without a group. Out: one transaction over the tables for each
checkpoint.

A seal says what a checkpoint consists of, and the commit is an ordinary transaction over several tables
(``core/versions/_commit_together``), of what each sink would commit alone. Each table has a seal of its own, with the
ids of all tables in it. The *deciding* table, the one with the smallest id, is sealed last, and its seal is the first
to be removed. So at any moment, for a checkpoint,

    no seal in the deciding table, and the checkpoint in no table     undecided: no table gets it
    a seal in the deciding table, and the checkpoint in no table      sealed: all get it, or it is discarded
    a seal in the deciding table, and the checkpoint in some table    it cannot be discarded: all others get it
    no seal in the deciding table, and the checkpoint in some table   done: what other seals are left is removed

Two things exclude each other by one object each. While the checkpoint is not sealed, a seal and a discard want the same
name in the deciding table's staging. Once it is, the transaction and a discard want the same version of a table that
has rows: who discards commits there that this seal never lands (``void_of``), which the transaction depends on. So a
transaction that is under way either lands before the discard, which is then refused, or not at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from msgspec.structs import replace

from txlog.core.sink._abandonment import Abandoned, abandonment, give_up_in_log
from txlog.core.sink._checkpoint_commits import FRESH_MS, CheckpointGivenUp
from txlog.core.sink._recovery import Recovery, listed_tasks, stale, tell_sealed_meanwhile
from txlog.core.sink._sink import Sink
from txlog.core.sink._staging import Manifest, StagedCheckpoint
from txlog.core.util import explains_calls, invalid, logger, whole_number
from txlog.core.versions import OpenTable, Steps, steps_together
from txlog.core.writing.committable import Committable
from txlog.errors import InvalidInputError, NotFoundError, PartlyCommittedError, StorageError, TxlogError
from txlog.result import WriteResult

Answer = TypeVar("Answer")
Out = TypeVar("Out")


class _EndedMeanwhile(Exception):
    """Another process discarded the checkpoint, or ended it without rows."""


@explains_calls
class SinkGroup:
    """Several tables fed from one checkpoint: each exactly once, in order, and all of them together.

        orders, lines = Sink(orders_table, "shop"), Sink(lines_table, "shop")
        group = SinkGroup(orders, lines)
        ...                                               # tasks write and stage with orders and lines
        group.prepare(17, [range(8), range(2)])           # 8 tasks staged with orders, 2 with lines
        group.commit(17)

    Once `prepare` returns, every table gets the checkpoint, whatever dies: `recover` ends what was begun. A commit is
    one transaction over the tables, as `txlog.transaction` makes it: all of them get their rows, or none. Tasks use the
    sinks; everything else goes through the group. One thread commits the checkpoints.

    Args:
        *sinks: One for each table, all with the same app_id; each with its own mode. Groups of the same tables are the
            same in any order. Let `recover` end every checkpoint before a table joins or leaves.

    Raises:
        InvalidInputError: There are no sinks, two have the same table, or they differ in app_id.
        TxlogError: A table's log cannot be read.
    """

    def __init__(self, *sinks: Sink) -> None:
        if not sinks or not all(isinstance(each, Sink) for each in sinks):
            raise invalid("sinks", sinks, "a Sink for each table")
        app_ids = sorted({sink.app_id for sink in sinks})
        if len(app_ids) > 1:
            raise InvalidInputError(f"the sinks of a group have one app_id, and these have {', '.join(app_ids)}")
        by_id = {sink._open_table.log.newest_state(refresh=False).metadata.id: sink for sink in sinks}
        if len(by_id) < len(sinks):
            raise InvalidInputError("two sinks of a group write to the same table: give each table one sink")
        self._sinks = sinks
        self._app_id = app_ids[0]
        self._together = tuple(sorted(by_id))
        self._deciding = by_id[self._together[0]]
        self._in_turn = [by_id[each] for each in (*self._together[1:], self._together[0])]
        self._seen_partial: set[int] = set()
        OpenTable.opened_together([sink._open_table for sink in sinks])

    # --- in the coordinator -------------------------------------------------------------------------------------

    def prepare(
        self,
        checkpoint_id: int,
        tasks: Sequence[Iterable[int] | Mapping[int, int] | Sequence[Committable]],
        *,
        fingerprint: str | None = None,
    ) -> bool:
        """Seal a checkpoint for all tables: from now on, every table gets what its tasks staged.

        Nothing is sealed until all tables are found ready. Sealing the same again does nothing.

        Args:
            checkpoint_id: The checkpoint.
            tasks: For each sink, in the group's order, its tasks as for `Sink.prepare`.
            fingerprint: As for `Sink.prepare`.

        Returns:
            False if a table has the checkpoint already: then all have it, or `commit` gives it to the rest.

        Raises:
            InvalidInputError: What `Sink.prepare` raises, for any table.
            StorageError: A store failed; seal again.
        """
        checkpoint_id = whole_number("checkpoint_id", checkpoint_id)
        wanted = listed_tasks(tasks, self._deciding._open_table.uri)
        if len(wanted) != len(self._sinks):
            raise invalid("tasks", tasks, f"the tasks of each of the {len(self._sinks)} sinks, in their order")
        jobs = {sink: sink._commits.job(checkpoint_id, fingerprint) for sink in self._sinks}

        def is_in_a_table() -> bool:
            found = self._of_each(lambda sink: sink._commits.committer.replay_of(jobs[sink], quietly=True))
            return any(each is not None for each in found.values())

        if is_in_a_table():
            return False
        try:
            seals = {
                sink: sink._sealable(jobs[sink], each, self._together)
                for sink, each in zip(self._sinks, wanted, strict=True)
            }
            for sink in self._in_turn:
                sink._seal(*seals[sink])
        except (InvalidInputError, NotFoundError):  # another process may have committed and removed it meanwhile
            if is_in_a_table():
                return False
            raise
        return True

    def commit(self, checkpoint_id: int) -> tuple[WriteResult, ...]:
        """Commit a sealed checkpoint to all tables, and remove its staging. A replay commits nothing.

        Args:
            checkpoint_id: The checkpoint.

        Returns:
            The result of each table, in the group's order, as `Sink.commit` returns it.

        Raises:
            TxlogError: What `Sink.commit` raises, for a table that cannot be committed: then no table has the
                checkpoint. It stays sealed for all, and `commit` or `recover` continues.
            MetadataChangedError, InvalidInputError: The same, or at the moment of the commit another engine changed one
                table so that its rows no longer fit; then the other tables have theirs. `abandon` continues without it.
        """
        checkpoint_id = whole_number("checkpoint_id", checkpoint_id)
        staged = self._staged()
        for sink in self._in_turn:
            sink._commits.require_earlier_committed(staged[sink], checkpoint_id)
        results = self._finish(checkpoint_id, staged, FRESH_MS)
        if not results:
            found = self._of_each(lambda sink: sink.committed(checkpoint_id))
            if not any(found.values()):
                raise InvalidInputError(
                    f"checkpoint {checkpoint_id} of {self._app_id!r} is not sealed, or another process ended it without"
                    f" rows: call group.prepare({checkpoint_id}, tasks) once every task has staged"
                )
            results = {sink: each or self._without_rows(sink) for sink, each in found.items()}
        return tuple(results[sink] for sink in self._sinks)

    # --- after a crash ------------------------------------------------------------------------------------------

    def recover(self) -> tuple[Recovery, ...]:
        """Commit the sealed checkpoints to all tables, by ascending checkpoint_id, and report the rest.

        Call it when the application starts, before `last_checkpoint_id`. A checkpoint that was sealed for some tables
        only counts as partial: no table has it.

        Returns:
            What was committed and what is partial in each table, in the group's order.

        Raises:
            TxlogError: What `commit` raises, at the first checkpoint and table that cannot be committed; the error's
                ``recovery`` says what was done before. Later checkpoints wait.
        """
        results: dict[Sink, dict[int, WriteResult]] = {sink: {} for sink in self._sinks}
        try:
            last = self.last_checkpoint_id()  # a later one may be in some tables only
            staged = self._staged()
            ended = {
                checkpoint_id
                for checkpoint_id in sorted({each.checkpoint_id for found in staged.values() for each in found})
                if self._recovered(checkpoint_id, staged, results)
            }
        except TxlogError as error:
            error.recovery = tuple(Recovery(results[sink]) for sink in self._sinks)
            raise
        recoveries = []
        for sink in self._sinks:
            left = [
                replace(each, is_sealed=False, is_void=each.is_void or each.is_sealed)
                for each in staged[sink]
                if each.checkpoint_id not in ended
            ]
            past = stale(left, last)
            for each in past:
                sink._staging.remove_quietly(each.names)
            partial = {each.checkpoint_id: each.attempts for each in left if each.has_work and each not in past}
            recoveries.append(Recovery(results[sink], partial))
            logger.info("%s: %r: %s", sink._open_table.uri, self._app_id, recoveries[-1])
        self._seen_partial = {checkpoint_id for each in recoveries for checkpoint_id in each.partial}
        return tuple(recoveries)

    def discard(self, checkpoint_id: int) -> bool:
        """Give up the staging of a checkpoint in all tables, as `Sink.discard` does in one. Write it again afterwards.

        A commit that is under way at this moment gives all tables their rows, or none: a sealed checkpoint costs a
        version of one table (``DISCARD CHECKPOINT`` in its history), after which none of its rows can land.

        Args:
            checkpoint_id: The checkpoint.

        Returns:
            False if nothing was discarded: nothing was staged, or what `recover` reported as partial was sealed by
            another process since, and stays.

        Raises:
            InvalidInputError: A table has the checkpoint already, so the others must get it too.
            StorageError: A store failed; call again.
        """
        checkpoint_id = whole_number("checkpoint_id", checkpoint_id)
        is_partial = checkpoint_id in self._seen_partial
        self._seen_partial.discard(checkpoint_id)
        found = self._found(self._staged(to_give_up=True), checkpoint_id)
        if not any(each.has_work for each in found.values()):
            return False
        if self._is_decided(found) and not is_partial:
            self._require_in_no_table(checkpoint_id)
            for sink in self._kept_from(self._seals(found)):
                if not give_up_in_log(sink._open_table, self._app_id, checkpoint_id, found[sink].round):
                    self._require_in_no_table(checkpoint_id)
            self._give_up(found, sealed_too=True)
        elif not self._give_up(found):
            tell_sealed_meanwhile(self._deciding._open_table.uri, self._app_id, checkpoint_id)
            return False
        return True

    def abandon(self, checkpoint_id: int) -> tuple[Abandoned, ...]:
        """Give up a checkpoint for good in every table that lacks it, as `Sink.abandon` does in one: all of them, or
        none.

        Args:
            checkpoint_id: The checkpoint.

        Returns:
            What was given up in each table, in the group's order: nothing where the table has the checkpoint.

        Raises:
            InvalidInputError: An earlier checkpoint is sealed but not committed, or a table is past this one.
            StorageError: A store failed; call again.
        """
        checkpoint_id = whole_number("checkpoint_id", checkpoint_id)
        given_up = self._in_all(
            lambda sink: abandonment(
                sink._open_table, sink._commits, self._app_id, checkpoint_id, sink._user_metadata, self._together
            )
        )
        return tuple(given_up[sink] for sink in self._sinks)

    def last_checkpoint_id(self) -> int | None:
        """The application's last checkpoint. After `recover`, every table has it, unless it had no rows for the table.

        Returns:
            The greatest one that a table has; None before the first.

        Raises:
            TxlogError: A log cannot be read.
        """
        found = [sink.last_checkpoint_id() for sink in self._sinks]
        return max((each for each in found if each is not None), default=None)

    # --- helpers ------------------------------------------------------------------------------------------------

    def _of_each(self, ask: Callable[[Sink], Answer | None]) -> dict[Sink, Answer | None]:
        """What each table says of a checkpoint. A table without an answer is past it and never had it, or had it and
        cannot confirm its fingerprint. That is an error unless another table has it: then so has this one, or there
        were no rows for this one."""
        found: dict[Sink, Answer | None] = {}
        unknown = []
        for sink in self._sinks:
            try:
                found[sink] = ask(sink)
            except InvalidInputError as error:
                if not error.is_unproven:
                    raise
                found[sink] = None
                unknown.append(error)
        if unknown and all(each is None for each in found.values()):
            raise unknown[0]
        return found

    def _staged(self, *, to_give_up: bool = False) -> dict[Sink, tuple[StagedCheckpoint, ...]]:
        """What is staged in each table.

        The deciding table is listed first: what it shows as sealed is sealed in the others. ``to_give_up``: it is
        listed last, so that what the others show is not of a later round than what is given up there.
        """
        in_turn = self._in_turn if to_give_up else reversed(self._in_turn)
        return {sink: sink._staging.checkpoints(self._app_id) for sink in in_turn}

    def _recovered(
        self,
        checkpoint_id: int,
        staged: Mapping[Sink, Sequence[StagedCheckpoint]],
        results: Mapping[Sink, dict[int, WriteResult]],
    ) -> bool:
        """End a checkpoint if that is decided. Whether it was."""
        found = self._finish(checkpoint_id, staged)
        if found is None:
            return False
        for sink, result in found.items():
            results[sink][checkpoint_id] = result
        return True

    def _found(
        self, staged: Mapping[Sink, Sequence[StagedCheckpoint]], checkpoint_id: int
    ) -> dict[Sink, StagedCheckpoint]:
        """What is staged of a checkpoint in each table."""
        nothing = self._deciding._staging.nothing(self._app_id, checkpoint_id)
        return {sink: _of(staged[sink], checkpoint_id) or nothing for sink in self._in_turn}

    def _is_decided(self, found: Mapping[Sink, StagedCheckpoint]) -> bool:
        deciding = found[self._deciding]
        return deciding.is_sealed and self._deciding._staging.is_sealed(deciding)

    def _seals(self, found: Mapping[Sink, StagedCheckpoint]) -> dict[Sink, Manifest]:
        """The seals of a checkpoint; that of the deciding table is read last."""
        read = {sink: self._seal_of(sink, found[sink]) for sink in self._in_turn}
        return {sink: seal for sink, seal in read.items() if seal is not None}

    def _kept_from(self, seals: Mapping[Sink, Manifest]) -> list[Sink]:
        """The tables whose logs must say that a checkpoint is given up, so that none of its rows lands: one that has
        rows of it. If none has, those whose seal another program removed: nobody knows whether they have."""
        having = [sink for sink in self._in_turn if sink in seals and not seals[sink].leaves_no_record]
        return having[:1] or [sink for sink in self._in_turn if sink not in seals]

    def _give_up(self, found: Mapping[Sink, StagedCheckpoint], *, sealed_too: bool = False) -> bool:
        """Remove a checkpoint's work from all tables; False if it is sealed for all by now, unless ``sealed_too``.

        Until that is done, nobody can seal it in the deciding table.
        """
        deciding = self._deciding._staging
        names = deciding.begin_to_give_up(found[self._deciding], sealed_too=sealed_too)
        if names is None:
            return False
        for sink, each in found.items():
            if sink is not self._deciding and each.has_work:
                sink._staging.give_up(each, sealed_too=sealed_too or each.is_sealed)
        deciding.end_giving_up(found[self._deciding], names)
        return True

    def _require_in_no_table(self, checkpoint_id: int) -> None:
        for sink in self._sinks:
            last = sink.last_checkpoint_id()
            if last is not None and last >= checkpoint_id:
                raise InvalidInputError(
                    f"checkpoint {checkpoint_id} of {self._app_id!r} is in {sink._open_table.uri} already:"
                    f" group.commit({checkpoint_id}) gives it to the other tables, and group.abandon({checkpoint_id})"
                    " continues without its rows there"
                )

    def _finish(
        self, checkpoint_id: int, staged: Mapping[Sink, Sequence[StagedCheckpoint]], fresh_ms: int = 0
    ) -> dict[Sink, WriteResult] | None:
        """Commit a decided checkpoint to each table, then remove its staging; None if it is not decided, or done.
        Nothing of it lands, and its staging is removed, if it was given up."""
        found = self._found(staged, checkpoint_id)
        deciding = found[self._deciding]
        # All are read before a table gets its rows, and even if it is not decided: a seal of other tables is an error.
        seals = self._seals(found)
        # If its seal is in force still, those of the others are of the same round.
        if self._deciding not in seals or not self._deciding._staging.is_sealed(deciding):
            return None
        try:
            results = self._in_all(lambda sink: self._steps(sink, found, staged[sink], fresh_ms))
        except CheckpointGivenUp:
            self._give_up(found, sealed_too=True)
            return {}
        except _EndedMeanwhile:
            return None
        late = [sink for sink, result in results.items() if result.version is None and result.outcome == "committed"]
        if late:
            raise StorageError("; ".join(results[late[0]].notes), table=late[0]._open_table.uri)
        for sink in reversed(self._in_turn):
            past = stale(staged[sink], None if results[sink].outcome == "empty" else checkpoint_id)
            own = [each for each in staged[sink] if each.checkpoint_id == checkpoint_id]
            names = [name for each in (*own, *past) for name in each.names]
            if not sink._staging.remove_quietly(dict.fromkeys(names)) and sink is self._deciding:
                break  # while it is sealed, the other tables have their seals
        return results

    def _steps(
        self, sink: Sink, found: Mapping[Sink, StagedCheckpoint], staged: Sequence[StagedCheckpoint], fresh_ms: int
    ) -> Steps[WriteResult]:
        """One table's rows of a checkpoint that is sealed for all."""
        mine = found[sink]
        result = None
        if mine.is_sealed:
            result = yield from sink._commits.sealed_steps(mine, staged, fresh_ms, self._together)
        result = result or sink.committed(mine.checkpoint_id)
        if result is not None:
            return result
        if not self._deciding._staging.is_sealed(found[self._deciding]):
            raise _EndedMeanwhile
        checkpoint_id = found[self._deciding].checkpoint_id
        raise InvalidInputError(
            f"checkpoint {checkpoint_id} of {self._app_id!r} is sealed, but its staged work for this table was removed"
            f" by another program. The other tables wait: group.abandon({checkpoint_id}) continues without its rows;"
            f" group.discard({checkpoint_id}), if no table has it, to write it again",
            table=sink._open_table.uri,
        )

    def _in_all(self, write: Callable[[Sink], Steps[Out]]) -> dict[Sink, Out]:
        """A write to each table that lacks its checkpoint, in one transaction."""
        while True:
            try:
                found = steps_together([(sink._open_table, write(sink)) for sink in self._in_turn])
                return dict(zip(self._in_turn, found, strict=True))
            except PartlyCommittedError as error:  # another engine was in between: the others have theirs
                logger.info("%s: written once more for this table", error.table)

    def _seal_of(self, sink: Sink, mine: StagedCheckpoint | None) -> Manifest | None:
        """A table's seal; None if it has none. Raises unless it is one of this group's tables."""
        if mine is None or not mine.is_sealed:
            return None
        try:
            manifest = sink._staging.manifest(mine)
        except NotFoundError:
            return None
        sink._commits.require_together(manifest, self._together)
        return manifest

    def _without_rows(self, sink: Sink) -> WriteResult:
        return WriteResult(sink._open_table.log.newest_state(refresh=False).version, "empty", 0, "")

    def __repr__(self) -> str:
        return f"SinkGroup({', '.join(map(repr, self._sinks))})"


def _of(staged: Sequence[StagedCheckpoint], checkpoint_id: int) -> StagedCheckpoint | None:
    return next((each for each in staged if each.checkpoint_id == checkpoint_id), None)
