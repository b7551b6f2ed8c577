"""Ends what a transaction over several tables left in one of them: whoever meets a prepared table does so.

In: an ``OpenTable`` whose newest version prepares it (`decisions.prepared`). Out: the version that ends that, from the
table's own staged work, or without rows. The log of the deciding table says which.

While the log says neither, the transaction is *in doubt*: its writer is about to decide, or has died. A table waits for
`_PATIENCE_S` after it was prepared; then a fence in the deciding table's log settles that the decision never lands. It
is an ordinary version, so the decision either came first, or is refused: clocks decide only who waits for how long.

A table whose deciding table cannot be reached from here stays as it is, and its writers go on without waiting: as those
of other engines, which know nothing of all this.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import NoReturn, Protocol

from msgspec.structs import replace

from txlog.core import ambient
from txlog.core.format.commit_file import Commit
from txlog.core.store import RetryPolicy, TableStore, write_once
from txlog.core.util import logger
from txlog.core.versions._plan import Plan
from txlog.core.versions._replay_check import commit_of_last
from txlog.core.versions.decisions.definition_changes import lacked_columns, only_adds_harmless_features
from txlog.core.versions.decisions.fences import fence, fenced_off
from txlog.core.versions.decisions.joined_appends import holds
from txlog.core.versions.decisions.prepared import (
    Preparation,
    PreparedTable,
    StagedPart,
    committed,
    is_effect,
    number_of,
    preparation,
    rolled_back,
    tables_of,
    transaction_of,
)
from txlog.core.versions.decisions.proposal import Isolation, OperationInfo, Proposal
from txlog.core.versions.decisions.state import PREPARED, TableState
from txlog.core.versions.files import DeltaLog
from txlog.errors import (
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
)
from txlog.result import WriteMetrics, WriteResult

_PATIENCE_S = 5.0
"""How long a table waits for the decision, after it was prepared. A writer that is alive needs some round trips."""
_ROUND_TRIPS = 20
"""How many more round trips it waits for each table."""
_LOOKS_S = 0.02, 0.5
"""The least and the longest time between two looks for the decision."""
_DEFINITIONS_MAX = 100


class TableAccess(Protocol):
    """What is needed of an ``OpenTable``."""

    store: TableStore
    retry: RetryPolicy
    log: DeltaLog

    @property
    def uri(self) -> str: ...

    def beside(self, uri: str) -> TableAccess:
        """Another table, opened with the same storage options."""

    def commit(
        self,
        proposal: Proposal,
        state: TableState | None,
        metrics: WriteMetrics | None = None,
        *,
        plan: Plan | None = None,
    ) -> WriteResult:
        """See ``OpenTable.commit``."""


def settle(open_table: TableAccess, state: TableState) -> bool:
    """End what ``state`` is prepared for. False if that cannot be told from here.

    Raises ``TxlogError`` only for this table's own store and log.
    """
    found = preparation_of(open_table, state)
    if found is None:
        _warn(open_table, "its own log no longer says what for")
        return False
    try:
        is_decided = _settled(open_table, found)
    except TxlogError as error:
        _warn(open_table, f"the table that decides, {found.decider.uri}, cannot be asked from here ({error.message})")
        return False
    if not is_decided:
        roll_back(open_table, found, "the transaction was not decided")
        return True
    part = _part(open_table, found)
    if part is None and found.part is not None:
        return number_of(open_table.log.newest_state()) != found.number  # another process has ended it, perhaps
    with contextlib.suppress(PartlyCommittedError):  # it is rolled back, which was said
        land(open_table, found, part or nothing_of(state), _prepared_state(open_table, found))
    return True


def is_awaited(open_table: TableAccess, state: TableState) -> bool:
    """Whether another table is still prepared, or may be, for a transaction that the log of this one up to ``state``
    decided. Raises ``TxlogError`` of this table's store and log."""
    if not number_of(state):
        return False
    for commit in _newest_first(open_table, -1):
        places = tables_of(commit)
        is_decision = bool(places) and places[-1].table_id == state.metadata.id and is_effect(commit)
        if is_decision and any(_waits(opened_at(place, open_table), place, commit) for place in places[:-1]):
            return True
    return False


def _waits(open_table: TableAccess, place: PreparedTable, decision: Commit) -> bool:
    try:
        state = open_table.log.newest_state()
        found = preparation_of(open_table, state) if state.is_prepared and state.metadata.id == place.table_id else None
    except TableNotFoundError:
        return False
    except TxlogError:  # perhaps it cannot be asked at the moment
        return True
    return found is not None and found.transaction == transaction_of(decision)


def preparation_of(open_table: TableAccess, state: TableState) -> Preparation | None:
    """What a prepared version says; None if it is cleaned up or cannot be read."""
    last = state.transactions[PREPARED]
    commit = commit_of_last(open_table.log, state.version, last)
    return None if commit is None else preparation(commit)


def opened_at(place: PreparedTable, like: TableAccess) -> TableAccess:
    """Another table of a transaction, or what is at its location by now, opened as ``like`` is."""
    return like.beside(place.uri)


# --- is it decided? -----------------------------------------------------------------------------------------------


def _settled(open_table: TableAccess, found: Preparation) -> bool:
    """Whether the transaction takes effect: final. Waits for its writer first."""
    try:
        decider = opened_at(found.decider, open_table)
        was_replaced = decider.log.newest_state().metadata.id != found.decider.table_id
    except TableNotFoundError:  # dropped, or this process does not see its location
        if any(_has_effect(open_table, place, found) for place in found.tables):
            return True
        if not _is_past_retention(open_table, found):
            raise
        return False
    if was_replaced:  # what it decided went with it, unless another table has its part already
        return any(_has_effect(open_table, place, found) for place in found.tables)
    since_s, pause_s = ambient.monotonic_s(), _LOOKS_S[0]
    while True:
        state = decider.log.newest_state()
        decided = decision_of(decider, found, state)
        if decided is not None:
            return decided
        if _is_patient(open_table, found, since_s):
            ambient.sleep(pause_s)
            pause_s = min(2 * pause_s, _LOOKS_S[1])
            continue
        try:
            proposal = fence(state, (found.decision,), txn_id=ambient.uuid4(), now_ms=ambient.now_ms())
            decider.commit(proposal, state)
        except ConflictError:  # a definition was changed meanwhile: look again
            continue


def decision_of(decider: TableAccess, found: Preparation, state: TableState) -> bool | None:
    """Whether the deciding table's log up to ``state`` has the decision, or says that it never will; None: neither.

    Raises ``NotFoundError`` if the versions that would say so are cleaned up.
    """
    for commit in decider.log.commits_between(found.decider.since + 1, state.version, files=False):
        if holds(commit, found.decision):
            decider.log.versions.make_durable(commit.version)
            return True
        if found.decision in fenced_off(commit):
            decider.log.versions.make_durable(commit.version)
            return False
    return None


def _is_patient(open_table: TableAccess, found: Preparation, since_s: float) -> bool:
    """Whether to wait on: neither this process, nor the table by the clocks of both, has waited for long."""
    age_s = _age_ms(open_table, found) / 1000
    longest_s = _PATIENCE_S + _ROUND_TRIPS * len(found.tables) * open_table.log.versions.round_trip_s()
    return max(ambient.monotonic_s() - since_s, age_s) < longest_s


def _is_past_retention(open_table: TableAccess, found: Preparation) -> bool:
    """Whether any vacuum may have deleted the part's files by now."""
    retention_ms = open_table.log.newest_state(refresh=False).properties.deleted_file_retention_ms
    return _age_ms(open_table, found) > retention_ms


def _age_ms(open_table: TableAccess, found: Preparation) -> int:
    """How long ago the table was prepared, by the clocks of both writers."""
    prepared = open_table.log.newest_state(refresh=False).transactions.get(PREPARED)
    prepared_ms = 0 if prepared is None or prepared.version != found.number else prepared.last_updated or 0
    return ambient.now_ms() - prepared_ms


def _has_effect(open_table: TableAccess, place: PreparedTable, found: Preparation) -> bool:
    if place == found.decider:
        return False
    try:
        other = opened_at(place, open_table)
        if other.log.newest_state().metadata.id != place.table_id:
            return False
        since = [*_newest_first(other, place.since)]
        return any(transaction_of(each) == found.transaction and is_effect(each) for each in since)
    except TxlogError:
        return False


def _newest_first(open_table: TableAccess, since: int) -> Iterator[Commit]:
    for version in range(open_table.log.newest_state().version, since, -1):
        try:
            yield open_table.log.read_commit(version, files=False)
        except NotFoundError:
            return


# --- the end ------------------------------------------------------------------------------------------------------


def land(
    open_table: TableAccess,
    found: Preparation,
    proposal: Proposal,
    prepared: TableState | None,
    metrics: WriteMetrics | None = None,
    again: Callable[[TableState], tuple[Proposal, WriteMetrics]] | None = None,
) -> WriteResult:
    """Commit what a decided transaction does to a prepared table, whoever else does the same.

    ``prepared`` is the prepared version, or a later one if that is cleaned up; None: the preparation has ended.
    ``again`` makes it on what other engines have committed since the table was prepared. Raises
    ``PartlyCommittedError`` if it does not fit that: the table is then rolled back, so that it waits for nothing. And
    what ``OpenTable.commit`` raises.
    """
    for _ in range(_DEFINITIONS_MAX):
        if prepared is None:
            return _ended(open_table, found)
        wanted = committed(proposal, prepared, found, txn_id=ambient.uuid4(), now_ms=ambient.now_ms())
        plan = None if again is None else _ending_again(again, wanted, found, metrics)
        try:
            result = open_table.commit(replace(wanted, is_reexecutable=plan is not None), prepared, metrics, plan=plan)
        except (MetadataChangedError, ProtocolChangedError) as error:
            prepared = open_table.log.newest_state()
            moved = _on_newest_definition(proposal, prepared)
            if moved is None:
                _leave_out(open_table, found, error)
            proposal = moved
            continue
        except ConcurrentTransactionError:
            return _ended(open_table, found)
        except (ConflictError, NotFoundError, InvalidInputError) as error:
            _leave_out(open_table, found, error)
        remove_part(open_table, found)
        return result
    raise StorageError(f"the definition of the table changed {_DEFINITIONS_MAX} times meanwhile", table=open_table.uri)


def _ending_again(
    again: Callable[[TableState], tuple[Proposal, WriteMetrics]],
    first: Proposal,
    found: Preparation,
    metrics: WriteMetrics | None,
) -> PlanAgain:
    did = metrics or WriteMetrics()

    def ending(state: TableState) -> Proposal:
        nonlocal did
        proposal, did = again(state)
        return committed(proposal, state, found, txn_id=first.txn_id, now_ms=ambient.now_ms())

    return PlanAgain(ending, lambda: did)


class PlanAgain:
    """A `Plan` that makes what a transaction does to a table again, where others have changed its files."""

    def __init__(self, again: Callable[[TableState], Proposal], metrics: Callable[[], WriteMetrics]) -> None:
        self._again = again
        self._metrics = metrics

    @property
    def metrics(self) -> WriteMetrics:
        return self._metrics()

    def execute(self, state: TableState) -> Proposal:
        return replace(self._again(state), is_reexecutable=True)

    def remaining_work_s(self, state: TableState) -> float:
        return 0.0


def _prepared_state(open_table: TableAccess, found: Preparation) -> TableState | None:
    """The prepared version, or the newest one if that is cleaned up; None if the preparation has ended."""
    newest = open_table.log.newest_state()
    if number_of(newest) != found.number:
        return None
    try:
        return open_table.log.state_at(found.version)
    except NotFoundError:
        return newest


def _on_newest_definition(proposal: Proposal, newest: TableState) -> Proposal | None:
    """An append on the definition that another engine has made since; None if its files do not fit there."""
    planned, protocol = proposal.planned_on, proposal.planned_protocol
    if planned is None or protocol is None or proposal.removes or proposal.metadata is not None:
        return None
    if protocol != newest.protocol and not only_adds_harmless_features(protocol, newest.protocol):
        return None
    lacked = lacked_columns(planned, newest.metadata, proposal.schema)
    if lacked is None or lacked.fields:
        return None
    return replace(
        proposal,
        planned_on=newest.metadata,
        planned_protocol=newest.protocol,
        schema=newest.schema,
        checked_version=newest.version,
    )


def _leave_out(open_table: TableAccess, found: Preparation, error: TxlogError) -> NoReturn:
    """End the preparation without rows, and say so: the other tables have theirs."""
    reason = "; ".join(map(str, error.reasons)) if isinstance(error, ConflictError) else error.message
    roll_back(open_table, found, f"it does not fit what another engine committed meanwhile: {reason}")
    others = ", ".join(place.uri for place in found.tables if place.table_id != _id_of(open_table))
    partly = PartlyCommittedError(
        f"the transaction is committed in {others}, but could not be here, since another engine committed at the moment"
        f" of the decision: {reason}. Its changes of this table are lost: make only these again",
        table=open_table.uri,
        version=open_table.log.newest_state(refresh=False).version,
    )
    logger.error("%s: %s", open_table.uri, partly.message)
    raise partly from error


def _id_of(open_table: TableAccess) -> str:
    return open_table.log.newest_state(refresh=False).metadata.id


def roll_back(open_table: TableAccess, found: Preparation, reason: str) -> None:
    """End a preparation without rows; nothing if it has ended."""
    while True:
        state = open_table.log.newest_state()
        if number_of(state) != found.number:
            return None
        try:
            ended = rolled_back(state, found, reason, txn_id=ambient.uuid4(), now_ms=ambient.now_ms())
            open_table.commit(ended, state)
        except ConflictError:  # it has ended, or another engine changed the definition
            continue
        return remove_part(open_table, found)


def _ended(open_table: TableAccess, found: Preparation) -> WriteResult:
    """The result of a preparation that another process has ended."""
    for commit in _newest_first(open_table, found.version):
        if transaction_of(commit) == found.transaction:
            if not is_effect(commit):
                raise InvalidInputError(
                    f"transaction {found.transaction} was rolled back here by another process", table=open_table.uri
                )
            open_table.log.versions.make_durable(commit.version)
            return WriteResult(commit.version, "already_committed", 0, commit.txn_id or "")
    return WriteResult(None, "already_committed", 0, "")


# --- staged work --------------------------------------------------------------------------------------------------


def stage_part(open_table: TableAccess, name: str, part: StagedPart) -> None:
    """Write what a table gets; durable when this returns. Raises ``StorageError``."""
    store = open_table.store.staging
    assert store is not None
    with TxlogError.located(open_table.uri):
        write_once(store, name, part.to_bytes(), open_table.retry)


def remove_part(open_table: TableAccess, found: Preparation) -> None:
    """Delete a table's staged work. Never raises: a vacuum removes what stays."""
    store = open_table.store.staging
    if store is None or found.part is None:
        return
    try:
        store.delete(found.part)
    except TxlogError as error:
        logger.debug("%s: %s stays until a vacuum: %s", open_table.uri, found.part, error)


def _part(open_table: TableAccess, found: Preparation) -> Proposal | None:
    store = open_table.store.staging
    if store is None or found.part is None:
        return None
    try:
        return StagedPart.from_bytes(store.read(found.part)).planned()
    except NotFoundError:
        return None


def nothing_of(state: TableState) -> Proposal:
    """The part of a table that was only read."""
    from txlog.core.versions.decisions.proposal_builder import ProposalBuilder

    level = Isolation(state.properties.isolation_level)
    return ProposalBuilder(state).build(
        OperationInfo("COMMIT PREPARED"),
        txn_id="",
        now_ms=0,
        isolation=level,
    )


def _warn(open_table: TableAccess, why: str) -> None:
    logger.warning(
        "%s: it is prepared for a transaction over several tables, and %s: this commit goes on without waiting for it",
        open_table.uri,
        why,
    )
