"""Reads the actions of one commit from the bytes of ``N.json``. Traces of a crash or a bug are errors.

In: the whole object as bytes. Out: a ``Commit``, or ``CorruptLogError`` with file and line. An empty, torn or
incomplete commit is never read as a shorter one. Unknown actions and fields are ignored, as the protocol
asks. ``core/versions/decisions/proposal`` writes commits. PROTOCOL.md, "Delta Log Entries".
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import orjson

from txlog.core.format.actions import Action, AddDecoder, CommitInfo, action_from_json
from txlog.core.format.wire import ActionError
from txlog.errors import CorruptLogError

_LARGE_BYTES = 64 << 10
"""From this size on, it pays to make a decoder of ``add`` lines."""

FILE_LINES = tuple(b'{"%s":%s{' % (kind, space) for kind in (b"add", b"remove", b"cdc") for space in (b"", b" "))
"""How the lines of files begin. A line may also begin with a file action that is null, and have another action."""

PUT_BACK = (
    "cannot be read until a copy of the file is put back, from a backup or an object version that the store keeps"
)
"""What to do about a damaged file of the log; appended to the error message."""
_REPAIR = (
    f"The versions that build on this commit {PUT_BACK}. If it is the newest and there is no copy, stop all writers,"
    " delete it and the .crc file of its version, and write its rows again. `txlog verify` names every damaged file"
)


class LogLimits(msgspec.Struct, frozen=True):
    """Limits on what reading one file of the log may cost. A file above them is refused with ``CorruptLogError``.

    They are far above what real tables need, and are defined only here:

    ===============================  ========================================================================
    ``commit_bytes``                 a commit, compacted commit, or V2 checkpoint in JSON
    ``line_bytes``                   one line of those: one action. 64 MiB of tiny fields cost 4 s and 1.1 GB
    ``actions``                      lines of one file
    ``checkpoint_rows(size)``        rows of a Parquet checkpoint file: a million, or one for each of its bytes,
                                     since each names another path
    ``checkpoint_memory(size)``      what such a file may decode to: 256 MiB, and 200 times its own size
    ===============================  ========================================================================

    The memory of a checkpoint counts its values; a null takes none. txlog reads back what it writes under these limits
    before it publishes it.

    JSON nests at most 1,024 deep (orjson). A checkpoint is decoded 256 to 2,048 rows at a time, so a dictionary that
    expands too much is detected after that many values.
    """

    commit_bytes: int = 2 * 1024**3
    line_bytes: int = 64 * 1024**2
    actions: int = 20_000_000
    checkpoint_rows_min: int = 1_000_000
    checkpoint_memory_min_bytes: int = 256 * 1024**2

    def checkpoint_rows(self, size_bytes: int) -> int:
        return max(self.checkpoint_rows_min, size_bytes)

    def checkpoint_memory(self, size_bytes: int) -> int:
        return self.checkpoint_memory_min_bytes + 200 * size_bytes


DEFAULT_LIMITS = LogLimits()


class Commit(msgspec.Struct, frozen=True):
    """One version's actions, in the order of the file; ``commit_info`` is not among them.

    ``files_skipped`` is True if lines of data files were counted but not parsed. ``size_bytes`` is the
    size of the file.
    """

    version: int
    actions: tuple[Action, ...]
    commit_info: CommitInfo | None
    size_bytes: int
    files_skipped: bool = False

    @property
    def txn_id(self) -> str | None:
        return self.commit_info.txn_id if self.commit_info else None

    @property
    def operation(self) -> str:
        """The operation that the writer named, for messages; ``"unknown"`` if it named none."""
        return (self.commit_info and self.commit_info.operation) or "unknown"

    @property
    def is_foreign(self) -> bool:
        """Whether another library wrote it, as far as its ``commitInfo`` shows."""
        return self.commit_info is None or self.commit_info.declared_actions is None

    @property
    def in_commit_timestamp_ms(self) -> int | None:
        return self.commit_info.in_commit_timestamp if self.commit_info else None


def parse_commit(
    body: bytes,
    version: int,
    *,
    name: str | None = None,
    table: str | None = None,
    limits: LogLimits = DEFAULT_LIMITS,
    files: bool = True,
) -> Commit:
    """Parse a commit. With ``files=False`` the lines of data files are counted but skipped unparsed.

    Raises ``CorruptLogError`` (``path`` is ``name``, that of its file; ``line`` from 1) if the file is empty, its last
    line is torn, it has fewer lines than its ``commitInfo`` declares, a known field is malformed, or a limit is
    exceeded.
    """
    file = name or f"v{version}"
    commit_info: CommitInfo | None = None
    actions: list[Action] = []
    lines = 0
    try:
        for action in parse_actions(body, file, version=version, table=table, limits=limits, files=files):
            lines += 1
            if type(action) is CommitInfo:
                commit_info = commit_info or action
            elif action is not None:
                actions.append(action)
    except CorruptLogError as error:
        error.repair, error.path = _REPAIR, name
        raise
    if not lines:
        raise CorruptLogError(
            f"commit {file} is empty ({len(body)} bytes, no action): its writer crashed or the disk lost it",
            table=table,
            version=version,
            path=name,
            repair=_REPAIR,
        )
    declared = commit_info.declared_actions if commit_info else None
    if declared is not None and declared != lines:
        raise CorruptLogError(
            f"commit {file} declares {declared} lines and has {lines}: it is incomplete",
            table=table,
            version=version,
            path=name,
            line=lines,
            repair=_REPAIR,
        )
    return Commit(version, tuple(actions), commit_info, len(body), not files)


def parse_actions(
    body: bytes,
    name: str,
    *,
    version: int | None = None,
    table: str | None = None,
    limits: LogLimits = DEFAULT_LIMITS,
    files: bool = True,
) -> Iterator[Action | None]:
    """The actions of one newline-delimited file, one per line; None for an unknown or skipped one.

    For commits, compacted commits and V2 checkpoints in JSON. Blank lines are ignored. Raises
    ``CorruptLogError`` as `parse_commit` does; the last line is always parsed, since a torn file shows there.
    """
    _check_size(len(body), limits.commit_bytes, "bytes", name, version, table)
    lines = body.split(b"\n")
    _check_size(len(lines), limits.actions + 1, "lines", name, version, table)
    decoder = AddDecoder(limits.line_bytes) if len(body) >= _LARGE_BYTES else None
    last = len(lines) - 1
    while last > 0 and not lines[last].strip():
        last -= 1
    number = 0
    while number < len(lines):
        run = decoder.run(lines, number) if files and decoder is not None else ()
        if run:
            yield from run
            number += len(run)
            continue
        line, number = lines[number], number + 1
        if not files and number <= last and line.startswith(FILE_LINES):
            yield None
            continue
        if not line or line.isspace():
            continue
        try:
            if problem := _too_long(len(line), limits):
                raise ActionError(problem)
            add = None if decoder is None else decoder.one(line)
            yield action_from_json(orjson.loads(line)) if add is None else add
        except orjson.JSONDecodeError as error:
            what = _described_line(line, is_last=number == len(lines))
            raise _corrupt(f"line {number} of {name} {what}: {error}", name, number, version, table) from None
        except ActionError as error:
            raise _corrupt(f"line {number} of {name}: {error}", name, number, version, table) from None


def require_within(limits: LogLimits, body: bytes, version: int) -> None:
    """Raise ``CorruptLogError`` for a commit to send that `parse_commit` would refuse for its size.

    This costs nothing for a commit that is smaller than the longest allowed line: its lines are not searched.
    """
    name = f"v{version}"
    _check_size(len(body), limits.commit_bytes, "bytes", name, version, None)
    if len(body) <= min(limits.line_bytes, limits.actions):
        return
    number = start = 0
    while start < len(body):
        end = body.find(b"\n", start)
        end = len(body) if end < 0 else end
        number += 1
        if problem := _too_long(end - start, limits):
            raise _corrupt(f"line {number} of {name} {problem}", name, number, version, None)
        start = end + 1
    _check_size(number, limits.actions, "lines", name, version, None)


def _too_long(line_bytes: int, limits: LogLimits) -> str | None:
    if line_bytes <= limits.line_bytes:
        return None
    return f"is {line_bytes} bytes long, more than the limit of {limits.line_bytes}"


def _described_line(line: bytes, *, is_last: bool) -> str:
    """Why a line cannot be parsed: the disk lost it, a write was interrupted, or the file was edited."""
    text = line.rstrip(b"\0")
    if not text:
        return f"is {len(line)} zero bytes (the disk lost it, as in a power cut)"
    if text != line:
        return f"is cut off after {len(text)} bytes, zeros follow (torn: the disk lost the rest)"
    if is_last and line.lstrip().startswith(b"{"):
        return f"is cut off after {len(line)} bytes (torn: its write did not finish)"
    return "is not JSON (an interrupted write does not cause this: was the file edited or replaced?)"


def _check_size(found: int, limit: int, unit: str, name: str, version: int | None, table: str | None) -> None:
    if found > limit:
        raise _corrupt(
            f"{name} has {found} {unit}, more than the limit of {limit}",
            name,
            None,
            version,
            table,
        )


def _corrupt(message: str, name: str, line: int | None, version: int | None, table: str | None) -> CorruptLogError:
    return CorruptLogError(message, table=table, version=version, path=name, line=line)
