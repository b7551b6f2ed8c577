"""Changes that do not fit the table's rows: found on each version, held back from then on, and kept in a file.

In: a `MismatchPolicy` and, at each execution of a checkpoint, the rows that match its keys. Out: the same without the
held-back keys, or `MismatchFound`: then the checkpoint reruns without these keys. A key that was held back once stays
so, whatever later versions contain, so the reruns end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from txlog.changelog.merge_engines.engine import MergeEngine
from txlog.changelog.merge_engines.keyed_rows import KeyedRows
from txlog.changelog.row_kinds import DELETE, UPDATE_BEFORE
from txlog.core import ambient
from txlog.core.changes.tasks import MatchedFile
from txlog.core.format.schema import Struct, fold_name, to_arrow
from txlog.core.store import QUARANTINE
from txlog.core.util import logger
from txlog.core.versions import OpenTable, Steps
from txlog.core.wording import setting
from txlog.core.writing import UnsentFiles, nullable
from txlog.core.writing.write_intent import MismatchAction, MismatchPolicy
from txlog.errors import InvalidInputError
from txlog.result import WriteResult

if TYPE_CHECKING:
    from numpy.typing import NDArray

_CASES = ("", "missing", "several", "unfit")
"""The number of each case; 0 means none."""
_MISSING, _SEVERAL, _UNFIT = 1, 2, 3
_SHOWN = 5

QuarantineRows = tuple[pa.RecordBatch, "Sequence[str]", "NDArray[np.int8]"]
"""Changes in the table's columns, with each one's kind and case."""


class MismatchFound(Exception):
    """Keys to hold back, by case number, including the ones already held back."""

    def __init__(self, cases: NDArray[np.int8]) -> None:
        super().__init__()
        self.cases = cases


class Mismatches:
    """Checks the keys of one checkpoint. ``held`` are the keys held back so far, by case number."""

    def __init__(self, policy: MismatchPolicy, num_keys: int, held: NDArray[np.int8] | None = None) -> None:
        self.policy = policy
        self.held = np.zeros(num_keys, dtype=np.int8) if held is None else held
        self.num_odd = 0
        """How many keys have another row than the one that a change retracts, and keep it."""

    def judge(self, touched: Sequence[MatchedFile], retracted: NDArray[np.bool_]) -> None:
        """``retracted`` marks the keys that only delete rows. Raises `MismatchFound` if more keys must be held back."""
        if self.policy.missing == self.policy.several == "ignore":
            return
        matches = np.zeros(len(self.held), dtype=np.int64)
        for each in touched:
            np.add.at(matches, each.live_source_rows, 1)
        found = self.held.copy()
        if self.policy.several != "ignore":
            found[(found == 0) & (matches > 1)] = _SEVERAL
        if self.policy.missing != "ignore":
            found[(found == 0) & retracted & (matches == 0)] = _MISSING
        self.hold(found)

    def judge_odd(self, is_odd: NDArray[np.bool_] | None) -> None:
        """Keys with a retraction of a row that the table does not have, although it has another one with the key.

        Raises `MismatchFound` if they must be held back.
        """
        if is_odd is None:
            return
        odd = is_odd & (self.held == 0)
        if self.policy.missing != "ignore":
            self.hold(np.where(odd, np.int8(_MISSING), self.held))
        self.num_odd = int(odd.sum())

    def report_odd(self, table: str) -> None:
        """Log the keys that have another row than a change retracts, after the commit."""
        if self.num_odd:
            logger.warning(
                "%s: %d keys keep their row: a change retracts another row than the table has. If no other writer"
                " changed these rows, the retractions do not carry the rows as they were written",
                table,
                self.num_odd,
            )

    def only_retracted(self, changes: KeyedRows, engine: MergeEngine) -> NDArray[np.bool_]:
        """The keys that a merge engine's changelog only deletes."""
        found = np.zeros(len(self.held), dtype=bool)
        if changes.kinds is None:
            return found
        counts = engine.wanted_rows(changes.kinds)
        retracted = (changes.kinds == UPDATE_BEFORE) | (changes.kinds == DELETE)
        found[changes.keys[retracted if counts is None else retracted & counts]] = True
        found[changes.keys[~retracted]] = False
        return found

    def hold_unfit(self, keys: NDArray[np.bool_]) -> None:
        """Hold these keys back as unfit. Raises `MismatchFound` if there are any."""
        cases = self.held.copy()
        cases[keys & (cases == 0)] = _UNFIT
        self.hold(cases)

    def hold(self, cases: NDArray[np.int8]) -> None:
        """Raises `MismatchFound` if a key among ``cases`` is not held back yet."""
        if (cases != self.held).any():
            raise MismatchFound(cases)


class HeldBack:
    """The held-back keys of a checkpoint, across executions, and the file with their changes."""

    def __init__(self, open_table: OpenTable, policy: MismatchPolicy, unsent: UnsentFiles, name: str) -> None:
        self._open_table = open_table
        self.policy = policy
        self._unsent = unsent
        self._name = name
        self.cases: NDArray[np.int8] | None = None
        self.path: str | None = None

    def steps(
        self,
        num_keys: int,
        attempt: Callable[[Mismatches], Steps[WriteResult]],
        schema: Struct,
        rows: Callable[[NDArray[np.int8]], Iterable[QuarantineRows]],
        text_of: Callable[[int], str],
    ) -> Steps[WriteResult]:
        """Those of an ``attempt``, begun again without the keys that it finds to be held back.

        Raises what it raises, and what `begin_again` raises.
        """
        while True:
            try:
                return (yield from attempt(Mismatches(self.policy, num_keys, self.cases)))
            except MismatchFound as found:
                self.begin_again(found, schema, rows, text_of)

    def begin_again(
        self,
        found: MismatchFound,
        schema: Struct,
        rows: Callable[[NDArray[np.int8]], Iterable[QuarantineRows]],
        text_of: Callable[[int], str],
    ) -> None:
        """Hold these keys back from now on: write their changes, ``rows`` of the marked keys, to a file.

        Raises ``InvalidInputError`` if the policy is to fail; ``text_of`` shows a key.
        """
        cases = found.cases
        for number, case in enumerate(_CASES):
            if number and self._action(case) == "fail" and (cases == number).any():
                raise self._refusal(case, np.flatnonzero(cases == number), text_of)
        quarantined = np.zeros_like(cases)
        for number, case in enumerate(_CASES):
            if number and self._action(case) == "quarantine":
                quarantined[cases == number] = number
        if self.path is not None:
            self._open_table.store.files.delete(self.path)  # no commit names it
        self.path = self._write(schema, rows(quarantined)) if quarantined.any() else None
        self.cases = cases

    def parameters(self) -> dict[str, str]:
        """The values for the commit."""
        if self.cases is None:
            return {}
        found = {"heldBack": str(int((self.cases > 0).sum()))}
        return found if self.path is None else {**found, "quarantine": self.path}

    def report(self, version: int | None) -> None:
        """Log the held-back keys after the commit."""
        if self.cases is None:
            return
        counts = {case: int((self.cases == number).sum()) for number, case in enumerate(_CASES) if number}
        shown = ", ".join(f"{count} {case}" for case, count in counts.items() if count)
        where = f"; their changes are in {self.path}" if self.path else ""
        logger.warning("%s: v%s holds back changes that do not fit: %s%s", self._open_table.uri, version, shown, where)

    def _action(self, case: str) -> MismatchAction:
        found: MismatchAction = getattr(self.policy, case)
        return found

    def _refusal(self, case: str, keys: NDArray[np.int64], text_of: Callable[[int], str]) -> InvalidInputError:
        shown = "; ".join(text_of(int(key)) for key in keys[:_SHOWN])
        more = f" and {len(keys) - _SHOWN} more" if len(keys) > _SHOWN else ""
        return InvalidInputError(
            f"the changes do not fit the table's rows: {_WHAT[case]} {shown}{more}. Nothing was committed."
            f" Fix the rows of the table, or write with {setting('on_mismatch', {case: 'quarantine'})}",
            table=self._open_table.uri,
            version=self._open_table.log.newest_state(refresh=False).version,
        )

    def _write(self, schema: Struct, rows: Iterable[QuarantineRows]) -> str:
        files = self._open_table.store.files
        path = f"{QUARANTINE}/{self._name}.{ambient.uuid4()}.parquet"
        kind, case = (_unused(name, schema) for name in ("_kind", "_case"))
        wanted = pa.schema([*to_arrow(nullable(schema)), (kind, pa.string()), (case, pa.string())])
        output = files.create(path)
        try:
            with pq.ParquetWriter(output.sink, wanted) as writer:
                for batch, kinds, cases in rows:
                    named = pa.array([_CASES[number] for number in cases.tolist()], pa.string())
                    columns = [*batch.columns, pa.array(kinds, pa.string()), named]
                    writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=wanted))
            output.publish()
        except BaseException:
            output.abort()
            raise
        files.make_durable([path])
        self._unsent.own([path])
        return path


def _unused(name: str, schema: Struct) -> str:
    taken = {fold_name(each) for each in schema.names}
    while fold_name(name) in taken:
        name = f"_{name}"
    return name


_WHAT = {
    "missing": "there is no row to delete with",
    "several": "several rows have the key",
    "unfit": "the changes and the table's row cannot be merged for",
}
