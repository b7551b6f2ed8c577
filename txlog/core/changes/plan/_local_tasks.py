"""`LocalTasks`: does the work of a row change in this process, on all files together.

In: a bound operation. Out: what it does to a version. Each file's matching rows are looked up once, and files written
for exactly the same rows are reused, so a rerun costs only what is new. An operation sees all files together, so this
also runs operations that decide by rows from several files, such as upserts with a merge engine.
"""

from __future__ import annotations

import weakref
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from txlog.core.changes.plan._change import FilesOfVersion, RowChange, RowsReplaced, preview
from txlog.core.changes.plan._file_choice import FileChoice, LiveFiles
from txlog.core.changes.plan._options import RowOptions
from txlog.core.changes.tasks import MatchedFile, RowOperation, RowWork
from txlog.core.format.actions import AddFile, FileId
from txlog.core.versions import OpenTable
from txlog.core.versions.decisions.state import TableState
from txlog.core.writing import UnsentFiles
from txlog.errors import TxlogError
from txlog.result import WriteMetrics

if TYPE_CHECKING:
    from txlog.core.changes.plan._change_files import ChangeFiles
    from txlog.core.definition import Definition


class LocalTasks:
    """Implements ``RowTasks``. With ``with_vectors``, deletion vectors remove rows; otherwise their files are
    rewritten.

    ``definition`` is what ``operation`` is bound to, if it differs from ``state``'s.
    """

    def __init__(
        self,
        open_table: OpenTable,
        state: TableState,
        operation: RowOperation,
        options: RowOptions,
        unsent: UnsentFiles,
        *,
        with_vectors: bool,
        definition: Definition | None = None,
    ) -> None:
        self._open_table = open_table
        self._operation = operation
        self._options = options
        self._is_redefined = definition is not None
        self._bound_to = state.metadata
        if definition is not None:
            state = state.defined_as(definition.metadata, definition.protocol)
        self._work = RowWork(
            open_table.store,
            state,
            operation,
            unsent,
            with_vectors=with_vectors,
            parquet=options.parquet,
            vectors=lambda: open_table.key_cache.vectors,
        )
        self.knows, self.matches = self._work.knows, self._work.matches

    def recall(self, files: Sequence[FileId], *, are_all_live: bool) -> Collection[FileId]:
        known = self._operation.known
        if known is None:
            return ()
        are_all_live = are_all_live and self._options.commit.read_version is None
        return self._work.recall(known, files, are_all_live=are_all_live)

    def follow(self, state: TableState, live: LiveFiles) -> None:
        self._work.forget({*live.keys})

    def replaced(self, state: TableState, live: LiveFiles, new: Sequence[AddFile], choice: FileChoice) -> RowsReplaced:
        if not self._is_redefined and state.metadata is not self._bound_to:
            self._work.rewriter.bind(state)
            self._bound_to = state.metadata
        with TxlogError.located(self._open_table.uri, state.version), self._work.writing_source():
            whole, touched = self._matches(state, live, new, choice)
            done = self._work.write(touched)
        changed = done.changed
        return RowsReplaced(
            [*whole, *changed.removed],
            changed.marked,
            [file.to_add() for file in changed.new_files],
            done.metrics(whole),
            changed.dead_fractions,
            row_changes=done.row_changes,
            tombstones=done.tombstones,
        )

    def would_do(self, state: TableState, live: LiveFiles, new: Sequence[AddFile], choice: FileChoice) -> WriteMetrics:
        whole, touched = self._matches(state, live, new, choice)
        return self._work.would_do(touched, whole)

    def _matches(
        self, state: TableState, live: LiveFiles, new: Sequence[AddFile], choice: FileChoice
    ) -> tuple[list[AddFile], list[MatchedFile]]:
        """The live files to remove as a whole, and the files with matching live rows."""
        self._work.look_into(new, self._options.on_files)
        found = [
            row
            for row, key in enumerate(live.keys)
            if key in choice.whole or (key not in choice.excluded and self.matches(key))
        ]
        adds = live.adds(found)
        whole = [add for add in adds if add.live_key in choice.whole] if choice.whole else []
        others = [add for add in adds if add.live_key not in choice.whole] if choice.whole else adds
        return whole, self._work.touched(others, state.version)

    def cost_s(self, live: LiveFiles, new: Sequence[AddFile], choice: FileChoice) -> float:
        return self._work.cost_s(live.keys, new)

    def remember(self, change: RowChange) -> None:
        """After the commit: let later changes know what was found and written."""
        known = self._operation.known
        if known is None or (live := change.live()) is None:
            return
        self._work.keep_written()
        known.keep_beside()
        cache, files = self._open_table.key_cache, live.files
        cache.hold(live, self._work.live_vectors({*files.keys}))
        if cache.live is not live:  # there is no room for it
            return
        made = (lambda: files.table) if files.are_few else weakref.ref(files.table)
        self._open_table.log.offer_files(live.state, live.asked, made)


def change_locally(
    open_table: OpenTable,
    state: TableState,
    operation: RowOperation,
    options: RowOptions,
    unsent: UnsentFiles,
    *,
    with_vectors: bool,
    definition: Definition | None = None,
    change_files: ChangeFiles | None = None,
) -> tuple[RowChange, LocalTasks]:
    """A change that this process executes, and its tasks."""
    tasks = LocalTasks(open_table, state, operation, options, unsent, with_vectors=with_vectors, definition=definition)
    held = None if operation.known is None else open_table.key_cache.live
    change = RowChange(
        open_table,
        state,
        operation,
        options,
        tasks,
        definition=definition,
        change_files=change_files,
        held=held if isinstance(held, FilesOfVersion) else None,
    )
    return change, tasks


def would_do(
    open_table: OpenTable,
    state: TableState,
    operation: RowOperation,
    options: RowOptions,
    files: pa.Table,
    *,
    with_vectors: bool,
    definition: Definition | None = None,
) -> WriteMetrics:
    """`preview` of a change in this process."""
    unsent = UnsentFiles(open_table.store.files)
    tasks = LocalTasks(open_table, state, operation, options, unsent, with_vectors=with_vectors, definition=definition)
    return preview(state, operation, tasks, files)
