"""Spark's own Delta judges the pairs of our conflict matrix: it does what the table says about it.

In: cells of ``tests/core/versions/test_conflict_outcomes``. Each is played to Spark's `OptimisticTransaction` in the
JVM: begun on the table as it was, given the reads and actions that our own transaction proposed, and committed after
the version that our winner wrote has appeared in the log. Out: the class of what it throws, compared with the table.
Data files play no part in it, so only the log is on disk. The hunt plays all cells at both levels.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from txlog.core.store import TableStore
from txlog.core.versions.decisions.proposal import Isolation, Proposal, commit_bytes
from txlog.testing.memory_store import MemoryLogStore, memory_table_store

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "core" / "versions"))
from test_conflict_outcomes import (
    CELLS,
    KINDS,
    LEVELS,
    LOSER,
    RULES,
    SPARK_DIFFERS,
    Recorded,
    RivalsMoment,
    Stored,
    base_table,
    won_by,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# One of each rule: (operation, winner).
PLAYED = """
append append           append property         append-read append        delete-rows delete-rows   delete-day append
rewrite append          rewrite delete-rows     txn txn                   domain domain
"""
PAIRS = [tuple(pair.split()) for line in PLAYED.strip().splitlines() for pair in line.split("  ") if pair.strip()]
THEIRS = {
    (loser, winner): answer
    for losers, winners, answer, _ in SPARK_DIFFERS
    for loser in losers.split()
    for winner in winners.split()
}


class _Planned(BaseException):
    """The operation is about to put its commit: what it proposes is known."""


def cases() -> Iterator[Any]:
    """All pairs, most of them for the hunt: at both levels where the answers differ, otherwise at one in turn."""
    for number, (loser, winner, ours) in enumerate(CELLS):
        if ours == "-":
            continue
        theirs = THEIRS.get((loser, winner), ours)
        answers = theirs.split("|") if "|" in theirs else (theirs, theirs)
        marks = () if (loser, winner) in PAIRS else pytest.mark.hunt(part="conflicts")
        for place, (level, answer) in enumerate(zip(LEVELS, answers, strict=True)):
            if "|" not in theirs and place != number % 2:
                continue
            yield pytest.param(loser, winner, level, answer, id=f"{loser}-over-{winner}-{level}", marks=marks)


@pytest.mark.parametrize(("loser", "winner", "level", "answer"), list(cases()))
def test_sparks_delta_resolves_each_conflict_as_the_matrix_says(
    delta: SparkSession, tmp_path: Path, loser: str, winner: str, level: str, answer: str
) -> None:
    exists = loser != "create"
    base, won = base_table(level, exists), won_by(winner, level, exists)
    log = tmp_path / "t" / "_delta_log"
    log.mkdir(parents=True)
    _write(log, base, base.log)
    theirs = _Transaction(delta, log.parent, _proposed(loser, base))
    _write(log, won, won.log.keys() - base.log.keys())
    assert theirs.answer() == ("." if answer in ".<" else answer[0])


def _proposed(loser: str, base: Stored) -> Proposal:
    """What our own transaction for this operation would commit."""

    def stop() -> None:
        raise _Planned

    store = memory_table_store()
    base.put_into(store)
    assert isinstance(store.log, MemoryLogStore)
    open_table = Recorded(TableStore(store.uri, RivalsMoment(store.log, stop), store.files))
    with suppress(_Planned):
        KINDS[loser].run(open_table, LOSER)
    return open_table.proposals[0]


def _write(log: Path, stored: Stored, names: Any) -> None:
    for name in names:
        if name.endswith(".json"):
            (log / name).write_bytes(stored.log[name][0])


class _Transaction:
    """A transaction of Spark's Delta, begun, that has read what ``proposal`` read and wants to commit what it says."""

    def __init__(self, session: SparkSession, table: Path, proposal: Proposal) -> None:
        self._session = session
        self._jvm: Any = session._jvm  # type: ignore[attr-defined]
        self._proposal = proposal
        none = self._jvm.scala.Option.empty()
        log = self._jvm.org.apache.spark.sql.delta.DeltaLog.forTable(
            session._jsparkSession,  # type: ignore[attr-defined]
            str(table),
        )
        self._transaction = log.startTransaction(none, none)
        self._read()

    def _read(self) -> None:
        reads = self._proposal.read_set
        if reads.whole_table:
            self._transaction.readWholeTable()
            self._transaction.filterFiles()
        for predicate in reads.predicates:
            self._transaction.filterFiles(self._terms(str(predicate)), False)
        for app_id in {action.app_id for action in self._proposal.set_transactions} | reads.app_ids:
            self._transaction.txnVersion(app_id)

    def answer(self) -> str:
        """``"."`` if it commits, otherwise the letter of what it throws."""
        from py4j.protocol import Py4JJavaError

        lines = commit_bytes(self._proposal, timestamp_ms=0, engine_info="").splitlines()[1:]
        parser = self._object("org.apache.spark.sql.delta.actions.Action$")
        actions = self._sequence([parser.fromJson(line.decode()) for line in lines])
        try:
            self._transaction.commit(actions, self._operation())
        except Py4JJavaError as error:
            name = error.java_exception.getClass().getSimpleName()
            return RULES.get(name.replace("Exception", "Error"), str(error.java_exception))
        return "."

    def _operation(self) -> Any:
        """One that says of itself whether it changes rows, as ours does by its name: all else of it is for history.

        Only an operation that changes none has snapshot isolation in Spark; ours may ask for it.
        """
        is_snapshot = self._proposal.isolation is Isolation.SNAPSHOT
        changes_rows = self._proposal.operation != "OPTIMIZE" and not is_snapshot
        if changes_rows:
            kind = getattr(self._jvm, "org.apache.spark.sql.delta.DeltaOperations$Write")
            operation = kind(self._jvm.org.apache.spark.sql.SaveMode.Append, *[self._jvm.scala.Option.empty()] * 8)
        else:
            operation = self._object("org.apache.spark.sql.delta.DeltaOperations$ManualUpdate$")
        assert operation.changesData() is changes_rows
        return operation

    def _terms(self, text: str) -> Any:
        """The terms of an AND, each for itself: Spark's own commands read so, and only then it prunes partitions."""
        frame = self._session.createDataFrame([], "id long, day string").where(text)
        condition = frame._jdf.queryExecution().analyzed().condition()  # type: ignore[attr-defined]
        return self._object("org.apache.spark.sql.delta.DeltaTableUtils$").splitConjunctivePredicates(condition)

    def _object(self, name: str) -> Any:
        return getattr(getattr(self._jvm, name), "MODULE$")

    def _sequence(self, values: Sequence[Any]) -> Any:
        found = self._jvm.java.util.ArrayList()
        for value in values:
            found.add(value)
        return self._jvm.org.apache.spark.api.python.PythonUtils.toSeq(found)
