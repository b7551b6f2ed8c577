"""The journal: batches on this machine's disk that are not in their tables yet, for clients who need not wait for them.

In: batches, each with its table and its terms. Out: a place for each, once it is synced; after a crash, the batches
that were not marked as done, in order. A folder holds segments, named by their first place; a record is a mark, three
lengths, a checksum, a header in JSON and an Arrow stream. A segment goes when all its batches are done.

A torn record at the end of the last segment is one that nobody was told of, and is cut off. Damage anywhere else is an
error: a client was told that these rows are safe.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import struct
import threading
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple

import msgspec
import pyarrow as pa

from txlog.errors import CorruptLogError, InvalidInputError, StorageError
from txlog.extend.catalogs import ambient, logger
from txlog.serve.batches import Batch, How

_MARK = b"TXJ1"
_HEAD = struct.Struct("<4sIQI")
SEGMENT_BYTES = 64 << 20


class Kept(msgspec.Struct, frozen=True):
    """What a record says of its rows."""

    place: int
    table: str
    how: How
    stream: str | None = None
    number: int | None = None
    may_skip: bool = False


class _Waiting(NamedTuple):
    place: int
    data: bytes
    on_kept: Callable[[], None]


class Journal:
    """The journal in one folder, which one process uses at a time. Thread-safe.

    ``id`` names it in the logs of tables, so that each knows how much of the journal it has.

    Args:
        folder: The folder; it is made if there is none.

    Raises:
        InvalidInputError: Another process has it open.
        StorageError: The disk failed.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self._folder = Path(folder)
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._lock_file = open(self._folder / "lock", "ab")  # noqa: SIM115  held until `close`
        except OSError as error:
            raise StorageError(f"the journal's folder cannot be used: {error}", path=str(folder)) from error
        try:
            fcntl.flock(self._lock_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._lock_file.close()
            raise InvalidInputError(
                "another service has this journal open: give each its own folder", path=str(folder)
            ) from None
        self.id = self._read_id()
        self._changed = threading.Condition()
        self._open: dict[Path, set[int]] = {}  # the places of each segment that are not done
        self._to_write: list[_Waiting] = []
        self._is_closing = False
        self._next = self._first_free()
        self._path, self._file = self._begun()
        self._thread = threading.Thread(target=self._write_all, name="txlog-serve-journal", daemon=True)
        self._thread.start()

    # --- after a start ------------------------------------------------------------------------------------------

    def left(self) -> Iterator[tuple[Kept, pa.RecordBatch]]:
        """The batches that an earlier process left, in order.

        Raises:
            CorruptLogError: A record that a client was told of is damaged.
            StorageError: The disk failed.
        """
        for path in self._segments():
            records = list(_records(path))
            with self._changed:
                self._open[path] = {kept.place for kept, _ in records}
            for kept, body in records:
                with pa.ipc.open_stream(body) as reader:
                    rows = reader.read_all().combine_chunks().to_batches()
                    yield kept, rows[0] if rows else pa.RecordBatch.from_pylist([], reader.schema)
        with self._changed:
            done = self._taken_done()
        _delete(done)

    def refused(self) -> list[str]:
        """The files of the batches that were taken, and that their tables refused later."""
        return sorted(str(path) for path in self._folder.glob("refused-*.arrow"))

    def skip_to(self, place: int) -> None:
        """Give no place before this one. A commit may be faster than the sync of a record: after a crash between the
        two a table has a place that the journal does not know of, and would take another batch there for that one."""
        with self._changed:
            self._next = max(self._next, place)

    # --- while it runs ------------------------------------------------------------------------------------------

    def keep(self, table: str, batch: Batch, on_kept: Callable[[], None]) -> None:
        """Give the batch, which is packed, its place, and write it soon. ``on_kept`` is called once it is synced, on
        another thread; if the disk fails it is not called, and the client waits for the table."""
        with self._changed:
            place = self._next
            self._next += 1
            kept = Kept(place, table, batch.how, batch.stream, batch.number, batch.may_skip)
            self._to_write.append(_Waiting(place, _record(kept, batch.body), on_kept))
            batch.place, batch.body = place, b""
            if len(self._to_write) == 1:
                self._changed.notify_all()

    def done(self, places: list[int]) -> None:
        """These batches are in their tables, or in a file of refused ones."""
        with self._changed:
            for places_of_segment in self._open.values():
                places_of_segment.difference_update(places)
            done = self._taken_done()
        _delete(done)

    def set_aside(self, table: str, batch: Batch, reason: str) -> str:
        """Write a batch that its table refuses by now to a file of its own, which an operator looks at.

        Returns:
            The file's path: an Arrow file, whose schema's metadata says why and for which table.

        Raises:
            StorageError: The disk failed; the batch stays in the journal.
        """
        path = self._folder / f"refused-{batch.place:020d}.arrow"
        about = {"table": table, "reason": reason, "stream": batch.stream or "", "batch": str(batch.number)}
        schema = batch.rows.schema.with_metadata(about)
        try:
            with open(path, "wb") as file:
                with pa.ipc.new_file(file, schema) as writer:
                    writer.write_batch(batch.rows.replace_schema_metadata(about))
                file.flush()
                os.fsync(file.fileno())
            self._sync_folder()
        except OSError as error:
            raise StorageError(f"a refused batch cannot be set aside: {error}", path=str(path)) from error
        return str(path)

    def close(self) -> None:
        """Write what waits, and let another process have the folder."""
        with self._changed:
            self._is_closing = True
            self._changed.notify_all()
        self._thread.join()
        with self._changed:
            if not self._open[self._path] and not self._file.closed and self._file.tell():
                self._roll()  # an empty segment, whose name is the next place
            self._file.close()
        self._lock_file.close()

    # --- the thread that writes ---------------------------------------------------------------------------------

    def _write_all(self) -> None:
        while True:
            with self._changed:
                while not self._to_write and not self._is_closing:
                    self._changed.wait()
                if not self._to_write:
                    return
                records, self._to_write = self._to_write, []
            if self._has_written(records):
                for each in records:
                    each.on_kept()

    def _has_written(self, records: list[_Waiting]) -> bool:
        try:
            with self._changed:
                file = self._segment(records)
            file.write(b"".join(each.data for each in records))
            file.flush()
            os.fsync(file.fileno())
            return True
        except OSError as error:
            logger.warning("the journal cannot be written, so clients wait for their tables: %s", error)
            with contextlib.suppress(OSError):  # the next record begins a new segment: this one may end in half of one
                self._file.close()
            return False

    def _segment(self, records: list[_Waiting]) -> BinaryIO:
        """The segment for these records, which counts them as open."""
        if self._file.closed or self._file.tell() > SEGMENT_BYTES:
            self._roll(records[0].place)
        self._open[self._path].update(each.place for each in records)
        return self._file

    def _roll(self, first: int | None = None) -> None:
        self._file.close()
        self._path, self._file = self._begun(first)
        _delete(self._taken_done())

    def _begun(self, first: int | None = None) -> tuple[Path, BinaryIO]:
        """A new segment. One is always there: its name and its records say which places were given."""
        path = self._folder / f"{self._next if first is None else first:020d}.log"
        file = open(path, "wb")  # noqa: SIM115  closed when it is full; if it is there, it has no whole record
        self._sync_folder()
        self._open[path] = set()
        return path, file

    def _taken_done(self) -> list[Path]:
        """The segments whose batches are all done, which may go."""
        done = [path for path, places in self._open.items() if not places and path != self._path]
        for path in done:
            del self._open[path]
        return done

    # --- the folder ---------------------------------------------------------------------------------------------

    def _segments(self) -> list[Path]:
        return sorted(self._folder.glob("*.log"))

    def _first_free(self) -> int:
        """The place after all that were ever given."""
        free = 0
        for path in self._segments():
            free = max(free, int(path.stem), *(kept.place + 1 for kept, _ in _records(path)))
        return free

    def _read_id(self) -> str:
        path = self._folder / "id"
        with contextlib.suppress(FileNotFoundError):
            if found := path.read_text().strip():
                return found
        made = ambient.uuid4()
        with open(path, "w") as file:
            file.write(made)
            file.flush()
            os.fsync(file.fileno())
        self._sync_folder()
        return made

    def _sync_folder(self) -> None:
        descriptor = os.open(self._folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _delete(paths: Sequence[Path]) -> None:
    for path in paths:
        path.unlink(missing_ok=True)


def _record(kept: Kept, body: bytes) -> bytes:
    header = msgspec.json.encode(kept)
    checksum = zlib.crc32(body, zlib.crc32(header))
    return b"".join((_HEAD.pack(_MARK, len(header), len(body), checksum), header, body))


def _records(path: Path) -> Iterator[tuple[Kept, bytes]]:
    """The records of a segment. Raises CorruptLogError for a damaged one that is not the end of the segment."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise StorageError(f"the journal cannot be read: {error}", path=str(path)) from error
    at = 0
    while at < len(data):
        found = _record_at(data, at)
        if found is None:
            rest = data.find(_MARK, at + 1)
            while rest >= 0 and _record_at(data, rest) is None:
                rest = data.find(_MARK, rest + 1)
            if rest < 0:  # what was being written when the process died, or when the disk failed
                logger.warning(
                    "%s ends with %d bytes of an incomplete record, which no client was told of", path, len(data) - at
                )
                return
            raise CorruptLogError(
                f"the journal is damaged at byte {at:,}: rows that a client was told are safe cannot be read",
                path=str(path),
                repair="Restore the file from a copy; or move it away, and have clients send their batches again",
            )
        kept, body, at = found
        yield kept, body


def _record_at(data: bytes, at: int) -> tuple[Kept, bytes, int] | None:
    if at + _HEAD.size > len(data):
        return None
    mark, header_bytes, body_bytes, checksum = _HEAD.unpack_from(data, at)
    begin, middle = at + _HEAD.size, at + _HEAD.size + header_bytes
    end = middle + body_bytes
    if mark != _MARK or end > len(data) or zlib.crc32(data[middle:end], zlib.crc32(data[begin:middle])) != checksum:
        return None
    return msgspec.json.decode(data[begin:middle], type=Kept), data[middle:end], end
