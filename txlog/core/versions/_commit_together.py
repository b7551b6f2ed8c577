"""Commits one transaction over several tables: in all of them, or in none.

In: a `TablePart` for each table, planned on a version of it, or writes that each leave their commit to this. Out: a
``WriteResult`` for each. `decisions.prepared` describes the versions that this makes, and ``_prepared_tables`` what
others do with them if this process dies.

First all tables but the deciding one are prepared, one after the other. From then on no other txlog commits there, so
what the transaction read of them is checked for the last time. The deciding table's part then decides, and the others
get theirs. Writers of other engines do not know of prepared versions: what they commit is looked at once more just
before the decision, and what comes after that is earlier than the transaction in the order of the table's versions.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

from msgspec.structs import replace

from txlog.core import ambient
from txlog.core.parallel import do_all, parallel_map
from txlog.core.util import logger
from txlog.core.versions._commit_errors import raise_conflict
from txlog.core.versions._open_table import OpenTable, Steps, ToCommit
from txlog.core.versions._prepared_tables import (
    PlanAgain,
    decision_of,
    land,
    nothing_of,
    remove_part,
    roll_back,
    stage_part,
)
from txlog.core.versions.decisions.conflicts import Conflict, Decision, Rebase, Reexecute, decide, decide_unread
from txlog.core.versions.decisions.exactly_once import AlreadyCommitted
from txlog.core.versions.decisions.prepared import (
    Preparation,
    PreparedTable,
    StagedPart,
    deciding,
    number_of,
    part_name,
    preparing,
)
from txlog.core.versions.decisions.proposal import Proposal
from txlog.core.versions.decisions.state import TableState
from txlog.core.writing import UnsentFiles
from txlog.errors import (
    CommitRetriesExhaustedError,
    CommitStateUnknownError,
    ConcurrentTransactionError,
    ConflictError,
    InvalidInputError,
    MetadataChangedError,
    NotFoundError,
    PartlyCommittedError,
    ProtocolChangedError,
    StorageError,
    TableNotFoundError,
    TxlogError,
    UnsupportedFeatureError,
)
from txlog.result import WriteMetrics, WriteResult

if TYPE_CHECKING:
    from txlog.core.store import RetryPolicy

_AT_ONCE = 8

Given = ParamSpec("Given")
Out = TypeVar("Out")


class TablePart:
    """What a transaction over several tables does in one of them.

    Args:
        open_table: The table.
        state: The version that the proposal was planned on.
        proposal: Its changes and what was read. Without actions, the table was only read.
        metrics: What the proposal does.
        unsent: Owns the files that it names.
        again: Makes the changes on a later version whose files others changed; None: they only add rows.
    """

    def __init__(
        self,
        open_table: OpenTable,
        state: TableState,
        proposal: Proposal,
        metrics: WriteMetrics,
        unsent: UnsentFiles,
        again: Callable[[TableState], tuple[Proposal, WriteMetrics]] | None = None,
    ) -> None:
        self.open_table = open_table
        self.state = state
        self.proposal = proposal
        self.metrics = metrics
        self.unsent = unsent
        self.again = None if again is None else _explained(again)
        self.valid = proposal
        """The proposal, found valid on a later version."""
        self.error: Exception | None = None
        """Why the transaction fails, if that is for this table."""

    @classmethod
    def of(cls, open_table: OpenTable, wanted: ToCommit) -> TablePart:
        """What a write yields. If a plan made it, the plan makes it again."""
        plan, state, metrics = wanted.plan, wanted.state, wanted.metrics or WriteMetrics()
        assert state is not None
        unsent = wanted.unsent or open_table.unsent_files()
        if plan is None:
            return cls(open_table, state, wanted.proposal, metrics, unsent)
        return cls(
            open_table, state, wanted.proposal, plan.metrics, unsent, lambda newer: (plan.execute(newer), plan.metrics)
        )

    @property
    def place(self) -> PreparedTable:
        return PreparedTable(self.state.metadata.id, str(self.open_table.address[0]), self.state.version)

    @property
    def writes(self) -> bool:
        return bool(self.proposal.actions)

    @property
    def reads(self) -> bool:
        return not self.proposal.read_set.is_blind

    @property
    def is_made_again(self) -> bool:
        """Whether it is made again before the decision too, where others change the table."""
        return self.again is not None and self.proposal.is_reexecutable

    def make_again(self, state: TableState) -> None:
        assert self.again is not None
        self.proposal, self.metrics = self.again(state)
        self.valid = self.proposal

    @contextlib.contextmanager
    def blamed(self) -> Iterator[None]:
        """What the block raises is for this table."""
        try:
            yield
        except Exception as error:
            self.error = error
            raise


class _NotMadeAgainError(InvalidInputError):
    """What a write raises when it is made again, other than a ``TxlogError``: it knows what to do then."""


def _explained(again: Callable[[TableState], Out]) -> Callable[[TableState], Out]:
    def made(state: TableState) -> Out:
        try:
            return again(state)
        except TxlogError:
            raise
        except Exception as error:
            raise _NotMadeAgainError(f"it does not fit the rows that the table has now ({error!r})") from error

    return made


def steps_together(writes: Sequence[tuple[OpenTable, Steps[Out]]]) -> list[Out]:
    """Run writes, each to another table, and commit what they yield as one transaction. A write whose batch is in its
    table already, or that has nothing to commit, ends without one.

    Before any commit, each write has got as far as its own. What fails for one of the tables is raised in its write,
    which may yield something else. Raises what a write raises, and what `commit_together` raises for none of them; then
    nothing landed, unless it is a ``CommitStateUnknownError`` or a ``PartlyCommittedError``.
    """
    results: dict[int, Out] = {}
    wanted: dict[int, ToCommit] = {}

    def go_on(number: int, step: Callable[[], ToCommit]) -> None:
        wanted.pop(number, None)
        try:
            wanted[number] = step()
        except StopIteration as end:
            results[number] = end.value

    try:
        for number, (_, steps) in enumerate(writes):
            go_on(number, steps.__next__)
        while wanted:
            parts = {number: TablePart.of(writes[number][0], each) for number, each in wanted.items()}
            try:
                committed = _committed_writes([*parts.values()], [*wanted.values()])
            except Exception as error:
                blamed = next((number for number, part in parts.items() if part.error is error), None)
                if blamed is None:
                    raise
                cause = error.__cause__ if isinstance(error, _NotMadeAgainError) else error
                assert cause is not None
                go_on(blamed, partial(writes[blamed][1].throw, cause))
                continue
            for number, result in zip(parts, committed, strict=True):
                go_on(number, partial(writes[number][1].send, result))
    finally:
        for _, steps in writes:
            steps.close()
    return [results[number] for number in range(len(writes))]


def _committed_writes(parts: Sequence[TablePart], wanted: Sequence[ToCommit]) -> Sequence[WriteResult]:
    if len(parts) > 1:
        return commit_together(parts, rest_too=True)
    (part,), (each,) = parts, wanted
    with part.blamed():
        return [part.open_table.commit(each.proposal, each.state, each.metrics, plan=each.plan, unsent=each.unsent)]


def commit_together(parts: Sequence[TablePart], *, rest_too: bool = False) -> tuple[WriteResult, ...]:
    """Commit the parts of one transaction, each of another table: all of them, or none.

    A table that was neither read nor written takes no part, and if only one does, its commit is an ordinary one. Where
    some tables have the batches that their parts record already, that is an error, unless ``rest_too``: then the others
    get theirs.

    Raises ``ConflictError``, ``CommitRetriesExhaustedError`` and ``StorageError``: nothing landed;
    ``CommitStateUnknownError`` for the deciding table: if its commit is there, all tables get theirs;
    ``PartlyCommittedError`` if another engine made that impossible for one of them.
    """
    results = {id(part): WriteResult(part.state.version, "committed", 0, "") for part in parts}
    taking = sorted((each for each in parts if each.writes or each.reads), key=lambda each: each.state.metadata.id)
    if len(taking) == 1 and taking[0].writes:
        only = taking[0]
        results[id(only)] = only.open_table.commit(only.proposal, only.state, only.metrics, unsent=only.unsent)
    elif any(each.writes for each in taking):
        for part, result in zip(taking, _committed(taking, rest_too=rest_too), strict=True):
            results[id(part)] = result
    return tuple(results[id(part)] for part in parts)


def _committed(parts: Sequence[TablePart], *, rest_too: bool) -> Sequence[WriteResult]:
    first = parts[0].open_table
    pacing = _policy(parts).pacing(first.log.versions.round_trip_s)
    while True:
        try:
            return _Together(parts).commit()
        except _ReplayedError:
            found = [_replay_of(part, may_lack=rest_too) for part in parts]
            rest = [part for part, result in zip(parts, found, strict=True) if result is None]
            committed = iter(commit_together(rest, rest_too=True))
            return [result or next(committed) for result in found]
        except _GivenUpError:
            if not pacing.pause():
                raise CommitRetriesExhaustedError(
                    "other writers gave this transaction up, since it took too long to decide after its tables were"
                    " prepared. Nothing landed; run it again",
                    table=first.uri,
                ) from None


def _policy(parts: Sequence[TablePart]) -> RetryPolicy:
    return parts[-1].open_table.retry


def _replay_of(part: TablePart, *, may_lack: bool) -> WriteResult | None:
    """The version with the batches that a part records, where one of the transaction's tables has its own already.

    Raises ``InvalidInputError`` if this one lacks them, unless it ``may_lack`` them: then None.
    """
    log = part.open_table.log
    state = log.newest_state()
    part.open_table.settle(state)
    state = log.newest_state()
    if not part.writes:
        return WriteResult(state.version, "already_committed", 0, "")
    decision = decide(part.proposal, [*log.commits_between(part.proposal.base_version + 1, state.version)])
    if not isinstance(decision, AlreadyCommitted):
        if may_lack:
            return None
        raise InvalidInputError(
            "the batches of this transaction are in some tables already, and not in this one: commit each by itself",
            table=log.uri,
            version=state.version,
        )
    return WriteResult(decision.version, "already_committed", 0, "")


class _ReplayedError(Exception):
    """A table has the batch that its part records."""


class _GivenUpError(Exception):
    """Another process settled that the decision never lands."""


def _blames(
    step: Callable[Concatenate[_Together, TablePart, Given], Out],
) -> Callable[Concatenate[_Together, TablePart, Given], Out]:
    """What a step raises is for its part's table."""

    def blaming(self: _Together, part: TablePart, /, *given: Given.args, **named: Given.kwargs) -> Out:
        with part.blamed():
            return step(self, part, *given, **named)

    return blaming


class _Together:
    """One try of the transaction, under an id of its own. ``parts`` ascend by table id; the last one decides."""

    def __init__(self, parts: Sequence[TablePart]) -> None:
        *self._others, self._decider = parts
        self._parts = parts
        self._transaction, self._decision = ambient.uuid4(), ambient.uuid4()
        self._prepared: list[tuple[TablePart, Preparation, TableState]] = []
        reads = any(part.reads and not part.is_made_again for part in parts)
        for part in parts:
            if not part.is_made_again:
                read_set = replace(part.proposal.read_set, other_tables=reads)
                part.proposal = replace(part.proposal, read_set=read_set)
            part.valid = part.proposal

    def commit(self) -> list[WriteResult]:
        try:
            for part in self._others:
                self._prepare(part)
            do_all(self._stage, self._others, threads=_AT_ONCE)
            decided = self._decide()
        except CommitStateUnknownError:
            raise
        except TxlogError:
            self._roll_back()
            raise
        except (_GivenUpError, _ReplayedError):
            self._roll_back()
            raise
        return [*self._finished(), decided]

    # --- before the decision ------------------------------------------------------------------------------------

    @_blames
    def _stage(self, part: TablePart) -> None:
        open_table, name = part.open_table, self._preparation(part).part
        if name is None:
            return
        if open_table.store.staging is None:
            raise UnsupportedFeatureError(
                "this store does not support staging, which a transaction over several tables needs",
                table=open_table.uri,
                features=("staging",),
            )
        stage_part(open_table, name, StagedPart.of(part.proposal, part.state.metadata.id, self._transaction))

    @_blames
    def _prepare(self, part: TablePart) -> None:
        open_table, found = part.open_table, self._preparation(part)
        for is_again in itertools.chain([False], itertools.repeat(True)):
            state = self._free_state(part, is_again)
            found = replace(found, number=number_of(state) + 1)
            try:
                made = preparing(state, found, txn_id=ambient.uuid4(), now_ms=ambient.now_ms())
                result = open_table.commit(made, state)
                break
            except (ConcurrentTransactionError, MetadataChangedError, ProtocolChangedError):
                continue  # another transaction prepared it first, or what its definition now is matters below
            except CommitStateUnknownError as error:
                raise StorageError(
                    f"the table could not be prepared for the transaction ({error.message}). Nothing landed, in no"
                    " table: run it again",
                    table=open_table.uri,
                    version=error.version,
                ) from error
        assert result.version is not None
        prepared = open_table.log.state_at(result.version)
        self._prepared.append((part, replace(found, version=result.version), prepared))
        self._check(part, prepared)

    @_blames
    def _free_state(self, part: TablePart, refresh: bool) -> TableState:
        """The newest version of a table, which is not prepared; without ``refresh``, one that was the newest a minute
        ago. Ends other transactions first."""
        open_table, log = part.open_table, part.open_table.log
        while True:
            state = log.newest_state(refresh=refresh or not log.state_is_fresh())
            refresh = True
            open_table.check_writable(state)
            if state.metadata.id != part.state.metadata.id:
                raise TableNotFoundError(
                    "the table was dropped and made again since the transaction began. Nothing landed",
                    table=open_table.uri,
                    version=state.version,
                )
            if not state.is_prepared:
                return state
            if not open_table.settle(state):
                raise StorageError(
                    "the table is prepared for another transaction, which this process cannot finish. Nothing landed:"
                    " run Table.maintain where all its tables can be reached",
                    table=open_table.uri,
                    version=state.version,
                )

    def _preparation(self, part: TablePart) -> Preparation:
        return Preparation(
            transaction=self._transaction,
            tables=tuple(each.place for each in self._parts),
            decision=self._decision,
            part=part_name(self._transaction, part.state.metadata.id) if part.writes else None,
        )

    @_blames
    def _check(self, part: TablePart, state: TableState) -> None:
        """Check what the part read and does against all commits up to ``state``. Raises ``ConflictError``."""
        log, base = part.open_table.log, part.valid.base_version
        if state.version == base:
            return
        decision: Decision
        try:
            decision = decide(part.valid, [*log.commits_between(base + 1, state.version)])
        except NotFoundError:
            decision = decide_unread(part.valid, part.state, state)
        if isinstance(decision, Conflict):
            try:
                raise_conflict(decision.reasons, log.uri)
            except ConflictError as error:
                part.open_table.report_conflict(error)
                raise
        if isinstance(decision, AlreadyCommitted):
            raise _ReplayedError
        if isinstance(decision, Reexecute):
            part.make_again(state)
            return
        part.valid = part.valid.rebased(state.version, decision.metadata if isinstance(decision, Rebase) else None)

    def _decide(self) -> WriteResult:
        part, found = self._decider, self._preparation(self._decider)
        part.unsent.also = [each.unsent for each in self._others]
        for is_again in itertools.chain([False], itertools.repeat(True)):
            state = self._free_state(part, is_again)
            if decision_of(part.open_table, found, state) is False:  # the commit sees a fence above ``state``
                raise _GivenUpError
            self._check(part, state)
            do_all(self._check_once_more, self._others, threads=_AT_ONCE)
            try:
                return self._sent(part, state, found)
            except ConcurrentTransactionError:
                continue  # another transaction over several tables was first, or a fence: what matters is found above
        raise AssertionError

    @_blames
    def _check_once_more(self, part: TablePart) -> None:
        """Other engines do not know that the table is prepared."""
        state, proposal = part.open_table.log.newest_state(), part.proposal
        part.unsent.require_kept(state.properties.deleted_file_retention_ms)
        self._check(part, state)
        if part.proposal is not proposal:
            raise _GivenUpError  # it is not what was staged

    @_blames
    def _sent(self, part: TablePart, state: TableState, found: Preparation) -> WriteResult:
        proposal = deciding(part.valid, state, found, now_ms=ambient.now_ms())
        if not part.is_made_again:
            return part.open_table.commit(proposal, state, part.metrics, unsent=part.unsent)

        def again(state: TableState) -> Proposal:
            part.make_again(state)
            return deciding(part.valid, state, found, now_ms=ambient.now_ms())

        plan = PlanAgain(again, lambda: part.metrics)
        return part.open_table.commit(proposal, state, part.metrics, plan=plan, unsent=part.unsent)

    def _roll_back(self) -> None:
        """Nothing lands: say so in the tables that wait for it. Never raises: their next writers find out."""
        for part, found, _ in self._prepared:
            try:
                roll_back(part.open_table, found, "the transaction failed")
            except TxlogError as error:
                logger.warning("%s: stays prepared until the next writer: %s", part.open_table.uri, error)
        for part in self._others:
            remove_part(part.open_table, self._preparation(part))

    # --- after the decision -------------------------------------------------------------------------------------

    def _finished(self) -> list[WriteResult]:
        """Give the prepared tables their parts. One that cannot have it now gets it from its next writer."""
        found = [*parallel_map(self._landed, self._prepared, threads=_AT_ONCE)]
        failures = [each for each in found if isinstance(each, PartlyCommittedError)]
        if failures:
            raise failures[0]
        return [each for each in found if isinstance(each, WriteResult)]

    def _landed(self, prepared: tuple[TablePart, Preparation, TableState]) -> WriteResult | PartlyCommittedError:
        part, found, state = prepared
        proposal, again = (part.proposal, part.again) if part.writes else (nothing_of(part.state), None)
        try:
            result = land(part.open_table, found, proposal, state, part.metrics, again)
            if result.outcome == "already_committed":  # a writer of the table was faster
                result = WriteResult(result.version, "committed", 1, result.txn_id, part.metrics)
            return self._with_what_was_not_seen(part, result)
        except PartlyCommittedError as error:
            return error
        except TxlogError as error:
            note = (
                f"the transaction is committed, and its part of {part.open_table.uri} could not be written yet"
                f" ({error.message}): the next writer of the table does it, or Table.maintain"
            )
            logger.warning("%s", note)
            return WriteResult(None, "committed", 1, "", part.metrics, notes=(note,))

    def _with_what_was_not_seen(self, part: TablePart, result: WriteResult) -> WriteResult:
        """Say if another engine changed what was read after it was checked for the last time."""
        base, version = part.valid.base_version, result.version
        if version is None or version <= base + 1:
            return result
        try:
            decision = decide(part.valid, [*part.open_table.log.commits_between(base + 1, version - 1)])
        except TxlogError:
            return result
        if not isinstance(decision, Conflict):
            return result
        note = f"what was read does not show {'; '.join(map(str, decision.reasons))}"
        logger.warning("%s: %s", part.open_table.uri, note)
        return replace(result, notes=(*result.notes, note))
