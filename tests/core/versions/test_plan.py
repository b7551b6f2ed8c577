"""Plans in the commit loop: when one reruns, when it must not, and what ends it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import orjson
import pyarrow as pa
import pytest
from msgspec.structs import force_setattr

from tests.writes import write_batch
from txlog.core import ambient
from txlog.core.definition import commit_definition, with_properties
from txlog.core.format.actions import SetTransaction
from txlog.core.format.file_columns import add_files_of
from txlog.core.format.log_names import commit_name
from txlog.core.operations import WriteOptions
from txlog.core.store import PutOutcome, Turn
from txlog.core.versions._open_table import OpenTable
from txlog.core.versions.decisions.proposal import Isolation, Proposal, ReadSet
from txlog.core.versions.decisions.state import TableState
from txlog.core.writing.commit_options import CommitOptions
from txlog.errors import (
    CommitRetriesExhaustedError,
    CommitStateUnknownError,
    ConcurrentTransactionError,
    InvalidInputError,
    MetadataChangedError,
    NotFoundError,
    ProtocolChangedError,
)
from txlog.result import WriteMetrics

ROWS = pa.table({"id": pa.array([1], pa.int64())})


@dataclass
class RemoveEverything:
    """A plan that removes whatever is live: a row of a version that it was not executed on would stay."""

    open_table: OpenTable
    app: tuple[str, int] | None = None
    work_s: float = 0.0
    is_blind: bool = False
    before: Callable[[], None] = lambda: None
    txn_id: str = field(default_factory=ambient.uuid4)
    executed_on: list[int] = field(default_factory=list)
    turns_held: list[bool] = field(default_factory=list)

    def execute(self, state: TableState) -> Proposal:
        self.before()
        self.executed_on.append(state.version)
        live = add_files_of(self.open_table.log.files(state))
        actions: list[Any] = [] if self.app is None else [SetTransaction(*self.app)]
        actions += [add.removed(deletion_timestamp=1, data_change=True) for add in live]
        return Proposal(
            txn_id=self.txn_id,
            read_version=state.version,
            actions=tuple(actions),
            read_set=ReadSet(whole_table=not self.is_blind),
            isolation=Isolation.SERIALIZABLE,
            operation="DELETE",
            schema=state.schema,
            partition_columns=state.partition_columns,
            is_reexecutable=True,
            planned_on=state.metadata,
        )

    def remaining_work_s(self, state: TableState) -> float:
        return self.work_s

    @property
    def metrics(self) -> WriteMetrics:
        return WriteMetrics(rows_deleted=len(self.executed_on))


def append(open_table: OpenTable, **options: Any) -> None:
    write_batch(open_table, ROWS, WriteOptions(**options))


def lose_to(winner: Callable[[], object]) -> Any:
    def step(real: Any, name: str, body: bytes) -> PutOutcome:
        winner()
        return real(name, body)  # type: ignore[no-any-return]

    return step


def info(log: Any, version: int) -> dict[str, Any]:
    return orjson.loads(log.inner.objects[commit_name(version)][0].splitlines()[0])["commitInfo"]  # type: ignore[no-any-return]


def test_after_a_lost_race_the_plan_is_executed_on_the_winner(
    table: OpenTable, open_handle: Any, scripted_log: Any
) -> None:
    plan = RemoveEverything(table)
    scripted_log.script["put_if_absent"] = [lose_to(lambda: append(open_handle()))]
    result = table.commit_plan(plan, table.writable_state())
    assert (result.version, plan.executed_on) == (3, [1, 2])
    assert result.metrics.reexecutions == 1
    assert result.metrics.rows_deleted == 2, "the metrics are those of the execution that landed"
    assert table.log.files(table.log.newest_state()).num_rows == 0
    reported = info(scripted_log, 3)
    assert (reported["txnId"], reported["readVersion"], reported["isBlindAppend"]) == (plan.txn_id, 2, False)
    assert reported["isolationLevel"] == "Serializable"


def test_a_plan_reruns_on_commits_that_landed_before_its_first_put(table: OpenTable, open_handle: Any) -> None:
    plan, state = RemoveEverything(table), table.writable_state()
    append(open_handle())
    assert table.commit_plan(plan, state).version == 3
    assert plan.executed_on == [1, 2]


def test_a_winner_that_changes_no_file_costs_no_execution(
    table: OpenTable, open_handle: Any, scripted_log: Any
) -> None:
    def set_transaction() -> None:
        other = open_handle()
        state = other.writable_state()
        txn = (SetTransaction("others", 1, 1),)
        proposal = Proposal(
            "t", state.version, txn, ReadSet(), Isolation.SERIALIZABLE, "WRITE", state.schema, state.partition_columns
        )
        other.commit(proposal, state)

    plan = RemoveEverything(table)
    scripted_log.script["put_if_absent"] = [lose_to(set_transaction)]
    assert table.commit_plan(plan, table.writable_state()).version == 3
    assert plan.executed_on == [1]


def test_a_lost_answer_is_settled_before_anything_reruns(table: OpenTable, open_handle: Any, scripted_log: Any) -> None:
    """Our put landed, its answer was lost, and others have built on it since: the plan has nothing more to do."""

    def land_and_lose(real: Any, name: str, body: bytes) -> PutOutcome:
        real(name, body)
        append(open_handle())
        return PutOutcome.UNKNOWN

    plan = RemoveEverything(table)
    scripted_log.script["put_if_absent"] = [land_and_lose]
    result = table.commit_plan(plan, table.writable_state())
    assert (result.version, result.outcome, plan.executed_on) == (2, "committed", [1])
    assert table.log.files(table.log.newest_state()).num_rows == 1


def test_one_version_gets_the_same_bytes_however_often_they_are_sent(table: OpenTable, scripted_log: Any) -> None:
    sent: list[bytes] = []

    def lose(real: Any, name: str, body: bytes) -> PutOutcome:
        sent.append(body)
        return PutOutcome.UNKNOWN

    plan = RemoveEverything(table)
    scripted_log.script["put_if_absent"] = [lose, lose, lose]
    assert table.commit_plan(plan, table.writable_state()).version == 2
    assert sent == [scripted_log.inner.objects[commit_name(2)][0]] * 3
    assert plan.executed_on == [1]


def test_nothing_is_executed_while_the_outcome_is_unknown(table: OpenTable, scripted_log: Any) -> None:
    plan = RemoveEverything(table)
    scripted_log.script["put_if_absent"] = [lambda real, name, body: PutOutcome.UNKNOWN] * 500
    with pytest.raises(CommitStateUnknownError):
        table.commit_plan(plan, table.writable_state())
    assert plan.executed_on == [1]
    assert set(scripted_log.names("put_if_absent")) == {commit_name(2)}


def test_a_changed_definition_conflicts_and_nothing_is_executed_on_it(
    table: OpenTable, open_handle: Any, scripted_log: Any
) -> None:
    def redefine() -> None:
        other = open_handle()
        state = other.writable_state()
        definition = with_properties(state, {"delta.enableChangeDataFeed": "true"})
        commit_definition(other, state, definition, "SET TBLPROPERTIES", {})

    plan = RemoveEverything(table)
    scripted_log.script["put_if_absent"] = [lose_to(redefine)]
    with pytest.raises((MetadataChangedError, ProtocolChangedError)):
        table.commit_plan(plan, table.writable_state())
    assert plan.executed_on == [1]


def test_a_property_that_is_no_rule_of_writing_is_followed_by_the_plan(
    table: OpenTable, open_handle: Any, scripted_log: Any
) -> None:
    def redefine() -> None:
        other = open_handle()
        state = other.writable_state()
        definition = with_properties(state, {"mine": "1", "delta.checkpointInterval": "7"})
        commit_definition(other, state, definition, "SET TBLPROPERTIES", {})

    plan = RemoveEverything(table)
    scripted_log.script["put_if_absent"] = [lose_to(redefine)]
    assert table.commit_plan(plan, table.writable_state()).version == 3
    assert plan.executed_on == [1, 2]
    assert table.writable_state().metadata.configuration["mine"] == "1"


def test_a_twin_of_the_same_application_makes_it_a_replay_and_another_checkpoint_a_conflict(
    table: OpenTable, open_handle: Any, scripted_log: Any
) -> None:
    plan = RemoveEverything(table, app=("orders", 7))
    scripted_log.script["put_if_absent"] = [lose_to(lambda: append(open_handle(), commit=CommitOptions("orders", 7)))]
    result = table.commit_plan(plan, table.writable_state())
    assert (result.outcome, result.version, plan.executed_on) == ("already_committed", 2, [1])
    assert result.metrics.rows_deleted == 0
    plan = RemoveEverything(table, app=("orders", 8))
    scripted_log.script["put_if_absent"] = [lose_to(lambda: append(open_handle(), commit=CommitOptions("orders", 9)))]
    with pytest.raises(ConcurrentTransactionError):
        table.commit_plan(plan, table.writable_state())


@pytest.mark.parametrize("is_executed_before", [True, False])
def test_winners_that_were_cleaned_up_unseen_make_it_execute_on_a_reload(
    table: OpenTable, open_handle: Any, scripted_log: Any, clock: Any, is_executed_before: bool
) -> None:
    plan, state = RemoveEverything(table), table.writable_state()
    proposal = plan.execute(state) if is_executed_before else None
    other = open_handle()
    for _ in range(3):
        append(other)
    other.log.write_checkpoint(other.log.newest_state())
    for version in range(4):
        del scripted_log.inner.objects[commit_name(version)]
    clock.elapsed_s += 7200
    result = table.commit(proposal, state, plan=plan) if proposal else table.commit_plan(plan, state)
    assert (result.version, plan.executed_on) == (5, [1, 4])
    assert table.log.files(table.log.newest_state()).num_rows == 0


def test_races_are_bounded_by_time_not_by_their_number(
    table: OpenTable, open_handle: Any, scripted_log: Any, clock: Any
) -> None:
    few = open_handle(max_attempts=2, total_timeout=60)
    scripted_log.script["put_if_absent"] = [step for _ in range(5) for step in (lose_to(lambda: append(table)), None)]
    assert few.commit_plan(RemoveEverything(few), few.writable_state()).metrics.lost_races == 5

    def never_done() -> None:
        clock.elapsed_s += 10
        append(table)

    append(table)
    plan = RemoveEverything(few, before=never_done, work_s=1.0)
    with pytest.raises(CommitRetriesExhaustedError, match="Nothing landed"):
        few.commit_plan(plan, few.writable_state())
    assert 5 <= len(plan.executed_on) <= 8


@dataclass
class Queue:
    """Knows whether its turn is held."""

    is_held: bool = False
    asked_since_s: list[float | None] = field(default_factory=list)

    def take(self, since_s: float | None = None, meanwhile: object = None) -> Turn:
        self.asked_since_s.append(since_s)
        self.is_held = True
        queue = self

        class Held(Turn):
            def end(self) -> None:
                queue.is_held = False

        return Held()


@pytest.mark.parametrize(("work_s", "is_held"), [(1.0, False), (0.01, True)])
def test_a_plan_with_much_work_left_gives_its_turn_up_for_it(
    table: OpenTable, open_handle: Any, work_s: float, is_held: bool
) -> None:
    queue, held = Queue(), []
    force_setattr(table.store, "commit_queue", queue)
    plan, state = RemoveEverything(table, work_s=work_s), table.writable_state()
    plan.before = lambda: held.append(queue.is_held)
    append(open_handle())
    assert table.commit_plan(plan, state).version == 3
    assert held == [False, is_held]


def test_a_plan_that_others_overtake_each_time_it_is_executed_gets_to_work_inside_its_turn(
    table: OpenTable, open_handle: Any
) -> None:
    """Else writers that commit faster than it works would keep it out until the retry policy ends."""
    queue, held = Queue(), []
    force_setattr(table.store, "commit_queue", queue)
    plan, state = RemoveEverything(table, work_s=0.3), table.writable_state()

    def overtaken() -> None:
        held.append(queue.is_held)
        if not queue.is_held:
            append(open_handle())

    plan.before = overtaken
    result = table.commit_plan(plan, state)
    assert held == [False, False, False, False, True], (
        "the first execution, then three for which 50, 100 and 200 ms are too little"
    )
    assert result.metrics.reexecutions == 4


def test_each_turn_is_asked_for_with_the_age_of_the_commit_not_of_the_attempt(
    table: OpenTable, open_handle: Any, scripted_log: Any, clock: Any
) -> None:
    queue = Queue()
    force_setattr(table.store, "commit_queue", queue)

    def overtake() -> None:
        clock.elapsed_s += 3
        append(open_handle())

    plan = RemoveEverything(table)
    scripted_log.script["put_if_absent"] = [step for _ in range(2) for step in (lose_to(overtake), None)]
    assert table.commit_plan(plan, table.writable_state()).metrics.lost_races == 2
    first, *later = queue.asked_since_s
    assert len(later) == 2
    assert later == [first, first]


def test_a_plan_that_claims_to_have_read_nothing_is_refused(table: OpenTable) -> None:
    with pytest.raises(InvalidInputError, match="blind"):
        table.commit_plan(RemoveEverything(table, is_blind=True), table.writable_state())


def test_a_missing_file_is_an_error_only_while_it_is_live(table: OpenTable, open_handle: Any) -> None:
    """Another writer rewrote it, and vacuumed it, between the listing and the look-up."""
    plan = RemoveEverything(table)
    plan.before, state = _once(lambda: _rewritten(open_handle())), table.writable_state()
    assert table.commit_plan(plan, state).version == 3
    assert plan.executed_on == [2]

    def gone() -> None:
        raise NotFoundError("part-1 does not exist", path="part-1")

    plan = RemoveEverything(table, before=gone)
    with pytest.raises(NotFoundError, match="part-1"):
        table.commit_plan(plan, table.writable_state())


def _rewritten(other: OpenTable) -> None:
    append(other)
    raise NotFoundError("part-0 does not exist", path="part-0")


def _once(action: Callable[[], None]) -> Callable[[], None]:
    """The action at the first call, nothing at later ones."""
    left = [action]
    return lambda: left.pop()() if left else None
