"""Makes a branch: a table whose first version has the rows of a version of another table, and copies none.

In: an open table, a name and a version. Out: the open branch. The table sets numbers of identity columns and row ids
aside for the branch, by a commit, so that rows of the branch never meet rows of the table with the same ones. Nothing
else of the table changes. If the name was used by a branch that is published or discarded, the new one begins in its
log, as the next version: a writer that is still at work on the old one loses a race, and nothing of it is lost unseen.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, MutableMapping
from typing import Any, Final
from weakref import WeakKeyDictionary

import pyarrow as pa
from msgspec.structs import replace

from txlog.branch.applications import begin_with
from txlog.branch.base_files import differing, lost_before_it_was_whole, removed_meanwhile, renumbered
from txlog.branch.ending import end
from txlog.branch.known import Origin, begun, info_of, is_closed, origin_of, remember_table
from txlog.branch.numbers import NUMBERS, ROW_IDS, first_numbers
from txlog.branch.places import check_name, place_of, require_no_branch
from txlog.core.format.actions import Metadata, line_of, operation_parameters
from txlog.core.format.column_mapping import MODE_KEY, assign, mapping_mode
from txlog.core.format.features import DELETED_BRANCH, check_can_read, without_feature
from txlog.core.format.file_columns import FILES_SCHEMA, add_files_of
from txlog.core.format.identity import identity_columns, with_marks
from txlog.core.format.paths import canonical_path
from txlog.core.format.properties import BRANCH
from txlog.core.format.schema import schema_to_json
from txlog.errors import (
    CommitStateUnknownError,
    ConflictError,
    ConflictReason,
    CorruptLogError,
    InvalidInputError,
    NotFoundError,
    TableExistsError,
    TableNotFoundError,
    TxlogError,
    UnsupportedFeatureError,
)
from txlog.extend import OpenTable, TableState
from txlog.extend.commits import (
    ROW_TRACKING_PROPERTIES,
    Definition,
    Isolation,
    OperationInfo,
    Proposal,
    ProposalBuilder,
    ambient,
    cloned,
    define,
    raise_conflict,
    row_id_domain,
)

AS_ACTIONS_MAX = 300
"""A branch of more files begins with a checkpoint, whose cost for each file is a tenth of an action's."""

_LAST_MADE: Final[MutableMapping[OpenTable, dict[str, Any]]] = WeakKeyDictionary()
"""The logs of the branches that a handle of a table made last, by name, for what they know."""
_LAST_MADE_MAX = 8

_LAST_LINES: Final[MutableMapping[OpenTable, tuple[pa.Table, bytes]]] = WeakKeyDictionary()
"""The files of the branch that a handle of a table made last, and their lines: most of them are the next one's."""

OF_A_BRANCH: Mapping[str, str] = {
    "delta.logRetentionDuration": "interval 36500 days",
    "delta.deletedFileRetentionDuration": "interval 36500 days",
}
"""Properties of a branch in place of the table's. A publication reads all of its commits; and a file that the branch
removes may be the table's, or one that the table took over, so no engine's vacuum of a branch deletes any. What is left
of a branch that is finished goes with a vacuum of the table."""

_ROW_ID_COLUMNS = (
    "delta.rowTracking.materializedRowIdColumnName",
    "delta.rowTracking.materializedRowCommitVersionColumnName",
)


def make_branch(table: OpenTable, *, name: object, version: int | None = None) -> OpenTable:
    """Make a branch of a version; None means the newest. Raises what `Table.branch` raises."""
    checked = check_name(name, table.uri)
    require_no_branch(table.uri)
    newest = table.writable_state()
    _check_kind(table, newest)
    base = newest
    if version is not None and version != newest.version:
        base = table.log.state_at(version)
        with TxlogError.located(table.uri, base.version):
            check_can_read(base.protocol, base.metadata)
    branch, there = _branch_there(table, newest, checked)
    if there is not None:
        _require_finished(table, newest, branch, there[0], checked)
    files = _files_of(table, newest, base)
    numbers, row_ids = first_numbers(table, newest, branch=checked, base_version=base.version)
    origin = Origin(
        id=ambient.uuid4(),
        name=checked,
        table=table.uri,
        table_id=base.metadata.id,
        base_version=base.version,
        made_at=0,
        own_version=0,
        created_ms=ambient.now_ms(),
        known=newest.version,
        numbers=numbers,
        row_ids=row_ids,
    )
    wanted = origin.places.files_in_branch(files)
    while True:
        is_large = there is None and wanted.num_rows > AS_ACTIONS_MAX
        first = int(is_large) if there is None else there[0].version + 1
        made = _commit(table, base, branch, there, replace(origin, made_at=first, own_version=first), wanted)
        if made is not None:
            state = branch.known_state()
            branch.vouch(state, base)
            if state.version == made and row_ids is None and not is_large:
                branch.log.hold_files(state, wanted)
            remember_table(branch, table)
            _remember(table, checked, branch)
            _require_kept(table, base, newest, branch, origin.id)
            return branch
        there = _there(table, newest, branch)


def _check_kind(table: OpenTable, newest: TableState) -> None:
    if table.store.owner is not None:
        raise UnsupportedFeatureError(
            "a catalog decides the versions of this table, and gives out credentials for its own folder alone, so it"
            " has no branches: make a clone, and write what you checked there to the table",
            table=table.uri,
        )
    if origin_of(newest) is not None:
        raise InvalidInputError("a branch cannot have branches: make one of the table", table=table.uri)


def _require_finished(table: OpenTable, newest: TableState, branch: OpenTable, there: TableState, name: str) -> None:
    origin = origin_of(there)
    if origin is None:
        raise TableExistsError("there is a table here that is not a branch: choose another name", table=branch.uri)
    known = info_of(newest, branch, there, origin)
    if known.status == "open" and (known.published_version is None or known.published_version < known.version):
        is_first = there.version == origin.made_at
        if is_first and lost_before_it_was_whole(table, newest, branch, there, origin.known, origin.places):
            return
        raise TableExistsError(
            f"there is a branch {name!r} from version {known.base_version} already, with versions that are not"
            " published: open it, publish or discard it, or choose another name",
            table=branch.uri,
            version=known.version,
        )


def _branch_there(
    table: OpenTable, newest: TableState, name: str
) -> tuple[OpenTable, tuple[TableState, pa.Table] | None]:
    """The branch, and what `_there` says of it. If this handle of the table made the last branch of the name, only what
    came since is read."""
    branch = table.beside(place_of(table.uri, name))
    known = _LAST_MADE.get(table, {}).pop(name, None)
    if known is not None:
        same = branch.knowing(known)
        with contextlib.suppress(CorruptLogError, NotFoundError):  # a vacuum deleted it, or somebody made another one
            there = _there(table, newest, same)
            if there is not None:
                return same, there
    return branch, _there(table, newest, branch)


def _remember(table: OpenTable, name: str, branch: OpenTable) -> None:
    known = _LAST_MADE.setdefault(table, {})
    known[name] = branch.log  # not the branch, which holds on to its table
    if len(known) > _LAST_MADE_MAX:
        known.pop(next(iter(known)), None)


def _there(table: OpenTable, newest: TableState, branch: OpenTable) -> tuple[TableState, pa.Table] | None:
    """The newest version of a branch, and its files. One that another process has begun, and maybe left, is finished
    first. One that a vacuum deleted has none.

    Raises NotFoundError if the rows that it was to begin with are gone, and what `_files_of` raises.
    """
    if branch.store.has_cheap_calls and branch.log.known_state is None and not branch.store.log.list_from("0"):
        return None
    try:
        return branch.log.newest_with_files()
    except TableNotFoundError:
        return None
    except CorruptLogError:
        found = begun(branch)
        if found is None:
            raise
    origin = origin_of(found)
    if origin is None:
        return None
    if origin.is_closed:
        branch.finish(found, FILES_SCHEMA.empty_table())
        return branch.log.newest_with_files()
    base = newest if newest.version == origin.base_version else table.log.state_at(origin.base_version)
    branch.finish(found, origin.places.files_in_branch(_files_of(table, newest, base)))
    return branch.log.newest_with_files()


def _files_of(table: OpenTable, newest: TableState, base: TableState) -> pa.Table:
    """The files of a version. Raises InvalidInputError if a vacuum may delete some at any moment."""
    files = table.log.files(base)
    if base.version == newest.version:
        return files
    live, tombstones = table.log.files_and_tombstones(newest, with_stats=False)
    cutoff_ms = ambient.now_ms() - newest.properties.deleted_file_retention_ms
    kept = {canonical_path(path) for path in live["path"].to_pylist()}
    times = zip(tombstones["path"].to_pylist(), tombstones["deletionTimestamp"].to_pylist(), strict=True)
    kept |= {canonical_path(path) for path, removed_ms in times if (removed_ms or 0) > cutoff_ms}
    gone = [path for path in files["path"].to_pylist() if canonical_path(path) not in kept]
    if gone:
        raise InvalidInputError(
            f"version {base.version} cannot have a branch: {len(gone):,} of its files, such as {gone[0]}, were removed"
            " longer ago than the table's delta.deletedFileRetentionDuration, so a vacuum may delete them. Branch off a"
            " newer version, or raise the property first",
            table=table.uri,
            version=base.version,
        )
    return files


def _require_kept(table: OpenTable, base: TableState, known: TableState, branch: OpenTable, made: str) -> None:
    """Raises ConflictError if a vacuum may have deleted files of the new branch before they were its own, and throws it
    away, unless somebody has written to it by now, or has made another one."""
    gone = removed_meanwhile(table, base, known)
    if not gone:
        return
    state = branch.log.newest_state()
    origin = origin_of(state)
    if origin is not None and origin.id == made and origin.made_at == state.version:
        end(branch, state, origin, "DISCARD BRANCH")
    detail = f"or an earlier commit began a vacuum that may have deleted {gone[0].path} before it was the branch's"
    version = table.log.newest_state().version
    reason = ConflictReason("ConcurrentDeleteReadError", version, "VACUUM START", detail)
    raise_conflict((reason,), table.uri, "make the branch again")


# --- the commit -----------------------------------------------------------------------------------------------------


def _commit(
    table: OpenTable,
    base: TableState,
    branch: OpenTable,
    found: tuple[TableState, pa.Table] | None,
    origin: Origin,
    wanted: pa.Table,
) -> int | None:
    """The branch's first version, or the next one of a log whose branch is finished, with the version and the files
    that were found. None if others wrote meanwhile."""
    there, live = found or (None, wanted.slice(0, 0))
    with TxlogError.located(branch.uri, None if there is None else there.version):
        definition = definition_of_branch(base, there, origin)
    builder = ProposalBuilder(there)
    define(builder, definition)
    builder.read_table()
    is_large = there is None and origin.own_version > 0
    is_new = there is None and not is_large and origin.row_ids is None
    if not (is_large or is_new):
        _put_files(builder, live, wanted, has_same_ids=there is None or _tracks_as_before(base, there))
    if origin.row_ids is not None:
        builder.set_domain(row_id_domain(origin.row_ids - ROW_IDS))
    begin_with(builder, base, there)
    size_bytes = sum(wanted["size"].to_pylist())
    info = OperationInfo(
        "CLONE",
        operation_parameters(
            source=f"delta.`{table.uri}`", sourceVersion=base.version, isShallow=True, branch=origin.name
        ),
        metrics={"sourceNumOfFiles": str(wanted.num_rows), "sourceTableSize": str(size_bytes)},
    )
    proposal = branch.proposed(builder, info, Isolation.SERIALIZABLE)
    if is_new and wanted.num_rows:
        proposal = replace(proposal, beside=(wanted.num_rows, size_bytes), lines=_lines_of(table, wanted))
    done: int | None = None
    with contextlib.suppress(ConflictError):
        if there is not None:
            done = _continued(branch, proposal, there, wanted)
        elif (begun := branch.begin(proposal, wanted) if is_large else branch.commit(proposal, None)) is not None:
            done = begun.version
    if done is None:
        if there is None:
            raise TableExistsError(
                f"another writer made the branch {origin.name!r} first: open it, or choose another name",
                table=branch.uri,
            )
        _require_finished(table, table.log.newest_state(), branch, branch.log.newest_state(), origin.name)
        return None
    return done if done == origin.own_version else None


def _put_files(builder: ProposalBuilder, live: pa.Table, wanted: pa.Table, *, has_same_ids: bool) -> None:
    """Replace the files of a branch by others."""
    gone, come = differing(live, wanted)
    builder.remove(*gone)
    builder.add(*([*come, *renumbered(live, wanted)] if has_same_ids else add_files_of(wanted)), are_new=False)


def _lines_of(table: OpenTable, files: pa.Table) -> bytes:
    """The lines of a first commit with these files: all that is to be known of them is in the table's log."""
    known, lines = _LAST_LINES.get(table) or (files.slice(0, 0), b"")
    rest = files.slice(known.num_rows)
    if not files.slice(0, known.num_rows).equals(known):
        rest, lines = files, b""
    adds = (add if add.data_change else replace(add, data_change=True) for add in add_files_of(rest))
    lines += b"".join([line_of(add) + b"\n" for add in adds])
    _LAST_LINES[table] = files, lines
    return lines


def _tracks_as_before(base: TableState, there: TableState) -> bool:
    """Whether the table tracks rows as it did when an earlier branch of it began, so that files have the same ids."""
    ours, theirs, keys = there.metadata.configuration, base.metadata.configuration, ROW_TRACKING_PROPERTIES
    return all(ours.get(key) == theirs.get(key) for key in (*keys, *_ROW_ID_COLUMNS))


def _continued(branch: OpenTable, proposal: Proposal, there: TableState, wanted: pa.Table) -> int | None:
    """The version that a proposal becomes on top of what is left of an earlier branch; None if it is another writer's.

    If a vacuum closed the branch, it may have deleted all before that, or does so at this moment. Then a checkpoint
    makes the version whole, as if all before it had been cleaned up. Raises what a commit raises.
    """
    if not is_closed(there):
        return branch.commit(proposal, there).version
    try:
        version = branch.commit(proposal, there).version
    except CommitStateUnknownError as error:  # where it costs nothing, a commit sees that the one before it went
        version = error.version
    assert version is not None
    commit = branch.log.read_commit(version)
    if commit.commit_info is None or commit.commit_info.txn_id != proposal.txn_id:
        return None
    branch.log.begin(commit, wanted)
    return version


def definition_of_branch(base: TableState, there: TableState | None, origin: Origin) -> Definition:
    """The table's definition at its version, for the branch. Rewritten files keep row ids in the table's own columns,
    so that the table can take the files over."""
    if there is not None and is_closed(there):
        there = replace(there, protocol=without_feature(there.protocol, DELETED_BRANCH))
    there = None if there is None else _mapped_as(base.metadata.configuration, there)
    found = _shared_definition(base, there) or cloned(base, there, OF_A_BRANCH)
    configuration = {**found.metadata.configuration, BRANCH: origin.to_text()}
    for key in _ROW_ID_COLUMNS:
        if key in base.metadata.configuration:
            configuration[key] = base.metadata.configuration[key]
    metadata = replace(found.metadata, configuration=configuration, description=None)
    if origin.numbers:
        metadata = _with_numbers(metadata, base, origin)
    return replace(found, metadata=metadata)


def _mapped_as(configuration: Mapping[str, str], there: TableState) -> TableState:
    """A branch, or what is left of one, with the column mapping of its table, which was turned on or off since. Its
    files go, or name their columns as before (`obstacle`): the names in files are those that the columns had."""
    mode, metadata = mapping_mode(configuration), there.metadata
    if mapping_mode(metadata.configuration) == mode:
        return there
    own = {**metadata.configuration, MODE_KEY: mode}
    schema = there.schema if mode == "none" else assign(there.schema, 0, lambda field: field.name)[0]
    return there.defined_as(replace(metadata, configuration=own, schema_string=schema_to_json(schema)))


def _shared_definition(base: TableState, there: TableState | None) -> Definition | None:
    """What `cloned` returns, if it is the same for all branches until the table's definition changes; None if not."""
    if base.domains or (there is not None and there.domains):
        return None
    found: Definition = base.derived("definition of a branch", lambda: cloned(base, None, OF_A_BRANCH))
    if there is None:
        return replace(found, metadata=replace(found.metadata, id=ambient.uuid4()))
    before = there.metadata
    configuration = {key: value for key, value in before.configuration.items() if key != BRANCH}
    same = replace(before, id=found.metadata.id, name=None, description=None, created_time=found.metadata.created_time)
    is_same = replace(same, configuration=configuration) == found.metadata and there.protocol == found.protocol
    return replace(found, metadata=before) if is_same else None


def _with_numbers(metadata: Metadata, base: TableState, origin: Origin) -> Metadata:
    """The metadata with marks from which the branch counts the numbers that the table set aside for it."""
    marks = {
        column.name: origin.numbers[column.physical] - NUMBERS * column.step
        for column in identity_columns(base.schema)
        if column.physical in origin.numbers
    }
    return with_marks(metadata, marks)
