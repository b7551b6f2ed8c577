"""Loads the new files of a folder into a table, each exactly once: Parquet, CSV or JSON, as one version.

In: an open table, the store of a folder, and `CopyOptions`. Out: a `CopyResult`. The version that has a file's rows
also notes the file as loaded (``core/format/loaded_files``), so a load that is run again after any failure, or
alongside another one, loads each file once: of two loads at once, one loses the race, and looks again which files are
new.
"""

from __future__ import annotations

import contextlib
import fnmatch
import functools
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
import pyarrow as pa

from txlog.core.format.actions import Protocol, operation_parameters
from txlog.core.format.arrow.spill import temporary_folder
from txlog.core.format.features import merged, upgraded_for
from txlog.core.format.identity import without_counted
from txlog.core.format.loaded_files import FEATURE, LoadedFiles
from txlog.core.format.paths import encode_path, is_hidden
from txlog.core.format.properties import FEATURE_PREFIX
from txlog.core.format.schema import to_arrow
from txlog.core.operations import WriteOptions, plan_write
from txlog.core.progress import OnDone
from txlog.core.row_rules import computed_names
from txlog.core.store import ObjectMeta, TableStore
from txlog.core.util import cached_property, invalid, logger, one_of
from txlog.core.versions import OpenTable
from txlog.core.versions.decisions.proposal import OperationInfo
from txlog.core.versions.decisions.proposal_builder import ProposalBuilder
from txlog.core.versions.decisions.state import TableState
from txlog.core.versions.files import list_log
from txlog.core.wording import setting
from txlog.core.writing import WriteJob, open_data, write_task
from txlog.errors import ConflictError, InvalidInputError, NotFoundError, StorageError, TxlogError
from txlog.loading.data_files import FORMATS, DataFiles, InputFile, TextFormat, inspected
from txlog.loading.source_folders import files_in, root_of
from txlog.result import WriteMetrics
from txlog.result.maintenance import CopyResult

ATTEMPTS_MAX = 100
_SPOOLED_CHUNK_BYTES = 4 << 20
IN_MEMORY_BYTES_MAX = 64 << 20
ON_DISK_BYTES_MAX = 1 << 30


class CopyOptions(msgspec.Struct, frozen=True):
    """The arguments of `Table.copy_into`."""

    format: str | None = None
    pattern: str | None = None
    schema_mode: str = "strict"
    delimiter: str | None = None
    header: bool = True
    null_values: Sequence[str] = ()
    decimal_comma: bool = False
    force: bool = False
    dry_run: bool = False
    user_metadata: str | None = None


def copy_into(
    open_table: OpenTable, *, source: TableStore, on_progress: OnDone | None = None, **given: Any
) -> CopyResult:
    """Load the files; the other arguments are those of `CopyOptions`. Raises what `Table.copy_into` raises."""
    options = CopyOptions(**given)
    _check(options)
    with contextlib.ExitStack() as until_the_end:
        load = _Load(open_table, source, options, on_progress, until_the_end)
        for attempt in range(ATTEMPTS_MAX):
            try:
                return load.run()
            except ConflictError as error:
                if attempt + 1 == ATTEMPTS_MAX:
                    raise
                logger.info("%s: the load is planned again, since another commit came first: %s", open_table.uri, error)
    raise AssertionError


def _check(options: CopyOptions) -> None:
    if options.format not in (None, *FORMATS):
        raise invalid("format", options.format, one_of(FORMATS))
    if options.pattern is not None and not isinstance(options.pattern, str):
        raise invalid("pattern", options.pattern, "a string such as 'day=*/*.csv'")
    for text in options.null_values:
        if not isinstance(text, str):
            raise invalid("null_values", text, "strings")
    if not isinstance(options.decimal_comma, bool):
        raise invalid("decimal_comma", options.decimal_comma, "True or False")
    if options.delimiter is not None and (not isinstance(options.delimiter, str) or len(options.delimiter) != 1):
        raise invalid("delimiter", options.delimiter, "one character")


@contextlib.contextmanager
def _in_temporary_files() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StorageError(
            f"a temporary file for the load cannot be written or read: {error}. Nothing was loaded: make room in the"
            " folder for temporary files, or name another one in the environment variable TMPDIR",
            path=error.filename,
        ) from error


class _Load:
    def __init__(
        self,
        open_table: OpenTable,
        source: TableStore,
        options: CopyOptions,
        on_bytes: OnDone | None,
        until_the_end: contextlib.ExitStack,
    ) -> None:
        """``until_the_end`` removes the temporary files."""
        self._open_table = open_table
        self._source = source
        self._options = options
        self._on_bytes = on_bytes
        self._inputs: dict[ObjectMeta, InputFile] = {}
        self._memory_left_bytes = IN_MEMORY_BYTES_MAX
        self._until_the_end = until_the_end
        self._root, self._own = root_of(source.uri), root_of(open_table.uri)
        if f"{self._root}/".startswith(f"{self._own}/"):
            raise InvalidInputError(
                "a table cannot load its own folder, nor one in it: `add_files` takes files that are there",
                table=open_table.uri,
            )
        if source.has_cheap_calls and os.path.isfile(source.uri):
            folder, name = os.path.split(source.uri)
            raise InvalidInputError(
                f"this is a file: pass its folder {folder}, and {setting('pattern', name)}", table=source.uri
            )
        if source.has_cheap_calls and not os.path.isdir(source.uri):
            raise NotFoundError("there is no folder to load from", table=source.uri)
        if list_log(source).commits:
            raise InvalidInputError(
                "this is a Delta table, whose log says which of its files have live rows: append its rows",
                table=source.uri,
            )

    def run(self) -> CopyResult:
        """One attempt, on the newest version. Raises ConflictError if another commit came first."""
        state = self._open_table.writable_state()
        with TxlogError.located(self._open_table.uri, state.version):
            loaded = LoadedFiles(state.domains)
        found = self._files()
        new = [each for each in found if self._options.force or self._location(each.name) not in loaded]
        result = CopyResult(
            version=state.version,
            files=tuple(each.name for each in new),
            files_skipped=len(found) - len(new),
            size_bytes=sum(each.size for each in new),
            dry_run=self._options.dry_run,
        )
        if not new or self._options.dry_run:
            return result
        return self._load(state, loaded, new, result)

    def _location(self, name: str) -> str:
        return f"{self._root}/{encode_path(name)}"

    def _files(self) -> list[ObjectMeta]:
        """The files of the folder that the pattern names, by name; none whose name begins with _ or a dot, and none of
        the table itself, which may be in the folder.

        A file of no bytes has no rows yet. It stays new, since its writer may be about to fill it.
        """
        pattern = self._options.pattern
        found = files_in(
            self._source, self._is_left_out, lambda name: pattern is None or fnmatch.fnmatchcase(name, pattern)
        )
        return [file for file in found if file.size]

    def _is_left_out(self, name: str) -> bool:
        return is_hidden(name) or f"{self._location(name)}/".startswith(f"{self._own}/")

    # --- one version --------------------------------------------------------------------------------------------------

    def _load(
        self, state: TableState, loaded: LoadedFiles, new: Sequence[ObjectMeta], result: CopyResult
    ) -> CopyResult:
        open_table, options = self._open_table, self._options
        data = self._inspected(state, new)
        stream = open_data(data.reader(self._counter(data.size_bytes)))
        with open_table.unsent_files() as unsent:
            with data.named():
                job = plan_write(open_table, stream.schema, WriteOptions(schema_mode=options.schema_mode), state)
                committable = write_task(open_table.store.files, job.plan, job.task(), stream)
            unsent.own(file.path for file in committable.files)
            builder = ProposalBuilder(state)
            builder.define(job.new_metadata, _protocol(state, job))
            for name in loaded.domains:
                builder.read_domain(name)
            for domain in (*job.new_domains, *loaded.noting(self._location(each.name) for each in new)):
                builder.set_domain(domain)
            builder.add(*[file.to_add() for file in committable.files])
            rows = sum(file.num_rows for file in committable.files)
            size_bytes = sum(file.size_bytes for file in committable.files)
            metrics = WriteMetrics(rows=rows, files=len(committable.files), bytes=size_bytes)
            info = OperationInfo(
                "COPY INTO",
                operation_parameters(
                    source=self._source.uri, format=options.format, pattern=options.pattern, force=options.force
                ),
                metrics=metrics.operation_metrics() | {"numLoadedFiles": str(len(new))},
                user_metadata=options.user_metadata,
            )
            done = open_table.commit_change(builder, info, metrics=metrics, unsent=unsent)
        assert done.version is not None
        return msgspec.structs.replace(result, version=done.version, rows=rows, notes=done.notes)

    def _inspected(self, state: TableState, new: Sequence[ObjectMeta]) -> DataFiles:
        options = self._options
        types = {column.name: column.type for column in to_arrow(without_counted(state.schema))}
        nulls, optional = ("", *options.null_values), computed_names(state.schema)
        text_format = TextFormat(
            types, nulls, options.delimiter, options.header, optional, has_decimal_commas=options.decimal_comma
        )
        for file in new:
            if file not in self._inputs:
                self._inputs[file] = self._input(file)
        return inspected([self._inputs[file] for file in new], options.format, text_format)

    def _input(self, file: ObjectMeta) -> InputFile:
        """A file is opened at least twice, and again after a lost race. Of an object store, the first ones stay in
        memory, or in temporary files, so that they are downloaded once."""
        opened = functools.partial(self._source.files.open, file.name)
        if self._source.has_cheap_calls:
            return InputFile(file.name, file.size, opened)
        if file.size <= self._memory_left_bytes:
            self._memory_left_bytes -= file.size
            return InputFile(file.name, file.size, _in_memory(opened))
        if file.size <= self._disk_left_bytes:
            self._disk_left_bytes -= file.size
            copy = functools.cache(lambda: _copied(opened, self._folder))
            return InputFile(file.name, file.size, _in_temporary_files()(lambda: pa.OSFile(copy())), opened)
        return InputFile(file.name, file.size, functools.partial(_passing, opened), opened)

    @cached_property
    def _folder(self) -> str:
        return self._until_the_end.enter_context(temporary_folder())

    @cached_property
    @_in_temporary_files()
    def _disk_left_bytes(self) -> int:
        """Half of a small disk is left to files that pass through it, and to other programs."""
        return min(ON_DISK_BYTES_MAX, shutil.disk_usage(tempfile.gettempdir()).free // 2)

    def _counter(self, total_bytes: int) -> Callable[[int], None]:
        done_bytes = 0

        def advance(read_bytes: int) -> None:
            nonlocal done_bytes
            done_bytes += read_bytes
            if self._on_bytes is not None:
                self._on_bytes(done_bytes, total_bytes)

        return advance


def _in_memory(opened: Callable[[], Any]) -> Callable[[], Any]:
    """Opens a file that is read whole at the first opening, and kept in memory."""

    @functools.cache
    def body() -> bytes:
        with opened() as handle:
            found: bytes = handle.read()
            return found

    return lambda: pa.BufferReader(body())


@_in_temporary_files()
def _passing(opened: Callable[[], Any]) -> Any:
    with temporary_folder() as folder:
        return pa.OSFile(_copied(opened, folder))  # stays readable after its name is gone


def _copied(opened: Callable[[], Any], folder: str) -> str:
    """The path of a local copy of a file of an object store: Arrow's threads then run no Python code (see `InputFile`).
    It is closed, since thousands of small files are more than a process may have open."""
    with opened() as handle, tempfile.NamedTemporaryFile(dir=folder, delete=False) as copy:
        for chunk in _chunks(handle):
            copy.write(chunk)
    return copy.name


def _chunks(handle: Any) -> Iterator[bytes]:
    while chunk := handle.read(_SPOOLED_CHUNK_BYTES):
        yield chunk


def _protocol(state: TableState, job: WriteJob) -> Protocol | None:
    """The protocol that the version needs for its domains too; None if the table has it."""
    planned = job.new_protocol or state.protocol
    configuration: Mapping[str, str] = {**state.metadata.configuration, f"{FEATURE_PREFIX}{FEATURE}": "supported"}
    needed = upgraded_for(planned, state.schema, configuration)
    protocol = planned if needed is None else merged(planned, needed)
    return None if protocol == state.protocol else protocol
