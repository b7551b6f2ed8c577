"""Change files: what a version does to each row, in the change data feed's terms.

In: what operations did to rows, and all file actions of the proposal. Out: files below ``_change_data/`` and their
``cdc`` actions. A version needs none if its added and removed files alone show the same changes: appended rows, and
files removed as a whole. If a deletion vector changes, or appears or disappears with its file, a copy holds rows that
stay, or a row is updated, the version has all its changes in change files. PROTOCOL.md, "Add CDC File", "Change Data
Files".

A transaction may change rows that it wrote or copied itself. Then its operations' changes do not add up to the
version's change, so the net change is computed from the files instead: a changed row is a delete and an insert.
"""

from __future__ import annotations

from msgspec.structs import replace

from txlog.core.changes.tasks import ChangeFileWriter, ChangesOfFiles
from txlog.core.format.actions import DeletionVectorDescriptor, Metadata
from txlog.core.format.changed_rows import ChangedRows, rows_between
from txlog.core.format.paths import canonical_path, encode_path
from txlog.core.store import TableFiles
from txlog.core.util import logger
from txlog.core.versions import OpenTable
from txlog.core.versions.decisions.changes import incompatible_change
from txlog.core.versions.decisions.proposal_builder import ProposalBuilder
from txlog.core.versions.decisions.state import TableState
from txlog.core.writing import UnsentFiles
from txlog.errors import CorruptLogError, NotFoundError


class ChangeFiles:
    """Collects what a proposal does to rows, and adds its change files. One thread. ``unsent`` owns the files."""

    def __init__(
        self, store: TableFiles, state: TableState, unsent: UnsentFiles, *, is_redefined: bool = False
    ) -> None:
        self._is_redefined = is_redefined  # the version's columns cannot show the earlier rows
        self._version = state.version
        self._writer = ChangeFileWriter(store, state, unsent)
        self._is_net = False  # an operation changed rows that an earlier one wrote or copied
        self._is_required = False

    @classmethod
    def of(
        cls, open_table: OpenTable, state: TableState, unsent: UnsentFiles, new_metadata: Metadata | None = None
    ) -> ChangeFiles | None:
        """None for a table whose change feed is off. The files have the columns of ``new_metadata``, if given."""
        before = state
        if new_metadata is not None:
            state = state.defined_as(new_metadata, None)
        if not state.properties.enable_change_data_feed:
            return None
        is_redefined = new_metadata is not None and (
            before.partition_columns != state.partition_columns
            or incompatible_change(before.schema, state.schema) is not None
        )
        return cls(open_table.store, state, unsent, is_redefined=is_redefined)

    @property
    def seconds(self) -> float:
        """The cost of the last write of change files."""
        return self._writer.seconds

    def begin(self) -> None:
        """Forget what an earlier attempt did to rows."""
        self._writer.collected = []
        self._is_net = False
        self._is_required = False

    def require(self) -> None:
        """Write a change file even if nothing changes: not every reader understands a vector on a new file."""
        self._is_required = True

    def collect(self, changes: ChangesOfFiles, builder: ProposalBuilder) -> None:
        """Call before ``changes`` are put into ``builder``."""
        self._is_net |= any(builder.is_new(each.add) for each in changes.touched)
        self._writer.collected.append(changes)

    def finish(self, builder: ProposalBuilder) -> int:
        """Call last: add the change files for everything in ``builder`` to it. Returns their number.

        Raises what writing files and reading changed files raises. Files that the operation itself need not read may be
        missing or damaged: a warning then says that the version has no change files.
        """
        if self._is_required or any(changes.need_files for changes in self._writer.collected):
            return self._finish(builder)
        # deltalake's load_cdf takes the rows that a vector marks for the file's added or removed rows.
        has_vectors = any(remove.deletion_vector is not None for remove in builder.removes) or any(
            add.deletion_vector is not None for add in builder.adds
        )
        if self._is_redefined or not has_vectors:
            return 0
        try:
            return self._finish(builder)
        except (NotFoundError, CorruptLogError) as error:
            logger.warning(
                "the version that follows v%s has no change files, since files with deletion vectors that it removes or"
                " brings back cannot be read; deltalake will read wrong changes of it: %s",
                self._version,
                error,
            )
            return 0

    def _finish(self, builder: ProposalBuilder) -> int:
        others = self._others(builder)
        files = self._writer.write(others, are_net=self._is_net)
        if not files and (builder.adds or builder.removes):
            # A version without a change file: readers take the rows of added and removed files for its changes.
            files = (self._writer.empty_file(),)
        builder.change_data(*(file.to_cdc() for file in files))
        return len(files)

    # --- what else the proposal does ------------------------------------------------------------------------

    def _others(self, builder: ProposalBuilder) -> list[ChangedRows]:
        """The rows that files add or remove and that the collected changes lack. If collected changes touch rows that
        were changed again: all rows that files add or remove."""
        adds = {canonical_path(add.path): add for add in builder.adds}
        removes = {canonical_path(remove.path): remove for remove in builder.removes}
        covered_new, covered_vectors, covered_gone = self._covered()
        self._is_net |= any(path not in adds or adds[path].deletion_vector is not None for path in covered_new)
        if self._is_net:
            covered_new, covered_vectors, covered_gone = set(), {}, set()
        adds = {path: add for path, add in adds.items() if path not in covered_new}
        found: list[ChangedRows] = []
        for path in [*removes, *(path for path in adds if path not in removes)]:
            remove = removes.get(path)
            if path in covered_gone:
                continue
            if path in covered_vectors and remove is not None:
                remove = replace(remove, deletion_vector=covered_vectors[path])
            found += rows_between(remove, adds.get(path))
        return found

    def _covered(self) -> tuple[set[str], dict[str, DeletionVectorDescriptor], set[str]]:
        """What the collected changes cover: new files, files up to a vector, and removed files."""
        new: set[str] = set()
        vectors: dict[str, DeletionVectorDescriptor] = {}
        gone: set[str] = set()
        for changes in self._writer.collected:
            new.update(canonical_path(encode_path(file.path)) for file in changes.new_files)
            marked = {canonical_path(add.path): vector for add, vector in changes.marked}
            vectors |= marked
            gone.update(path for each in changes.touched if (path := canonical_path(each.add.path)) not in marked)
        return new, vectors, gone
