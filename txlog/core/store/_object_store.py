"""The object store: put-if-absent and data files on S3, Azure and Google Cloud Storage, through obstore.

A commit is one conditional PUT that the client never retries: after a retry, its own lost success would look like
"already exists". `_outcome` decides what an answer means. Data files are uploads that become visible only when they
are complete. PROTOCOL.md: "Delta Log Entries", "Writer Requirements" (mutual exclusion on a version).
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import io
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import obstore
import pyarrow as pa

from txlog.core import ambient
from txlog.core.format.paths import is_location, is_plain_path
from txlog.core.store._base import (
    ICEBERG,
    OBJECT_STORE,
    STAGING,
    VERSIONS,
    WAITING,
    ObjectMeta,
    OnLink,
    PutOutcome,
    RoundTrip,
    SkipFolder,
    folders_above,
    last_answer,
    refused,
)
from txlog.core.store._commit_queue import MachineCommitQueue
from txlog.core.store._object_client import Location, ObjectClient, answer_of, is_panic
from txlog.core.store._options import StorageKind, StorageOptions, parse_options
from txlog.core.store._table_store import TableStore
from txlog.core.util import cached_property
from txlog.errors import NotFoundError, StorageError, TxlogError

if TYPE_CHECKING:
    from txlog.core.store._external_files import OtherBuckets
    from txlog.core.store._refusals import ErrorResponse

_LOG = "_delta_log"
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")
_LIST_PAGE = 1000
_FOLDERS_KEPT = 4096
_UPLOAD_PART_BYTES = 8 * 1024 * 1024
_UPLOAD_CONCURRENCY = 4
_TAIL_BYTES = 64 << 10  # as much as Arrow first reads of a Parquet file

# Refusals by the client itself, before anything is sent; any other failure without an answer may hide a success.
_REFUSED = frozenset(
    {
        "FileNotFoundError",
        "InvalidPathError",
        "NotImplementedError",
        "NotSupportedError",
        "PermissionDeniedError",
        "UnauthenticatedError",
    }
)


class ObjectLogStore:
    """`LogStore` for the table at the client's location, or for another folder in it."""

    capabilities = OBJECT_STORE

    def __init__(self, client: ObjectClient, folder: str = _LOG) -> None:
        self._client = client
        self._root = folder
        self._round_trip = RoundTrip()

    def __reduce__(self) -> tuple[Any, ...]:
        return (ObjectLogStore, (self._client, self._root))

    def list_from(self, start: str) -> list[ObjectMeta]:
        folder = start.rpartition("/")[0]
        prefix = f"{self._root}/{folder}" if folder else self._root
        offset = _offset_before(self._root, start)

        def request(store: Any) -> list[ObjectMeta]:
            found: list[ObjectMeta] = []
            for page in obstore.list(store, prefix=prefix, offset=offset, chunk_size=_LIST_PAGE):
                found.extend(_meta(entry["path"].removeprefix(f"{self._root}/"), entry) for entry in page)
            return found

        try:
            listed = self._client.run("list", self._root, request)
        except NotFoundError:
            return []
        # Azure's emulator ignores the offset, and sidecars are below the log: keep what was requested.
        wanted = [meta for meta in listed if meta.name >= start and _is_directly_in(folder, meta.name)]
        return sorted(wanted, key=lambda meta: meta.name)

    def read(self, name: str) -> bytes:
        path = self._path(name)
        body: bytes = self._client.run("read", path, lambda store: obstore.get(store, path).bytes().to_bytes())
        return body

    def stat(self, name: str) -> ObjectMeta:
        path = self._path(name)
        return self._client.run("look at", path, lambda store: _meta(name, _head(store, path)))

    def put_if_absent(self, name: str, body: bytes | memoryview) -> PutOutcome:
        path, payload = self._path(name), bytes(body)
        started_s = ambient.monotonic_s()
        try:
            self._client.send_once(lambda store: obstore.put(store, path, payload, mode="create", use_multipart=False))
            return PutOutcome.WRITTEN
        except BaseException as error:
            outcome = self._outcome(path, error)
        finally:
            self._round_trip.observe(ambient.monotonic_s() - started_s)
        if isinstance(outcome, PutOutcome):
            return outcome
        raise outcome

    def put(self, name: str, body: bytes | memoryview) -> None:
        path, payload = self._path(name), bytes(body)
        self._client.run("write", path, lambda store: obstore.put(store, path, payload, use_multipart=False))

    def delete(self, name: str) -> None:
        _delete(self._client, self._path(name))

    def remove_stale_temporaries(self, *, dry_run: bool = False) -> list[ObjectMeta]:
        """An incomplete upload has no name. The bucket's lifecycle rules remove its parts."""
        return []

    def make_durable(self, name: str) -> None:
        """An object that can be read is durable already: only its presence is checked."""
        self.stat(name)

    def round_trip_s(self) -> float:
        return self._round_trip.median_s()

    def _outcome(self, path: str, error: BaseException) -> PutOutcome | BaseException:
        """What is known after a put that raised, or what to raise; see the module docstring."""
        if isinstance(error, StorageError) or not (isinstance(error, Exception) or is_panic(error)):
            return error
        answer = answer_of(error)
        if answer is None and (type(error).__name__ in _REFUSED or isinstance(error, (ValueError, TypeError))):
            return refused(self._client.translated("write", path, error))
        if answer is not None and answer.meaning == "refused":
            return refused(self._client.translated("write", path, error))
        last_answer.words = self._client.shown(error)
        if answer is not None and answer.meaning == "unsent":
            return PutOutcome.BLOCKED
        is_taken = type(error).__name__ in ("AlreadyExistsError", "PreconditionError")
        return PutOutcome.ALREADY_EXISTS if is_taken or _is_taken(answer) else PutOutcome.UNKNOWN

    def _path(self, name: str) -> str:
        if not all(map(_NAME.fullmatch, name.split("/"))):
            raise StorageError(f"{name!r} is not the name of a Delta log file; nothing was changed", path=name)
        return f"{self._root}/{name}"


class ObjectFileStore:
    """`FileStore` of the table at the client's location."""

    part_bytes = _UPLOAD_PART_BYTES
    needs_read_back = False  # an object is complete or absent, and its ETag or size was compared

    def __init__(self, client: ObjectClient) -> None:
        self._client = client

    def __reduce__(self) -> tuple[Any, ...]:
        return (ObjectFileStore, (self._client,))

    @cached_property
    def _elsewhere(self) -> OtherBuckets:
        from txlog.core.store._external_files import OtherBuckets

        return OtherBuckets(lambda location: ObjectFileStore(self._client.at(location)))

    def create(self, path: str) -> ObjectOutputFile:
        return ObjectOutputFile(self, self._client, _checked(path))

    def write(self, path: str, body: pa.Buffer | bytes) -> ObjectMeta:
        """One request if the body is small and the ETag is its MD5, as on S3 unless a key service encrypts; otherwise
        it checks the size afterwards. A large body is sent in parts. Azure refuses a body that is shorter than its
        Content-Length ("Put Blob"), and there are no other makers of it, as there are of S3: its word is enough."""
        _checked(path)
        payload = memoryview(body).cast("B")
        is_small = payload.nbytes <= _UPLOAD_PART_BYTES

        def request(store: Any) -> str:
            tag: str | None = obstore.put(store, path, payload, use_multipart=False if is_small else None)["e_tag"]
            return (tag or "").strip('"')

        try:
            tag = self._client.run("write", path, request)
            if not is_small or not (self._client.location.cloud is StorageKind.AZURE or tag == _md5(payload)):
                self.require_size(path, payload.nbytes)
        except TxlogError:
            with contextlib.suppress(TxlogError):  # a lost answer may hide a success; no other writer uses the name
                _delete(self._client, path)
            raise
        return ObjectMeta(name=path, size=payload.nbytes, modified_ms=ambient.now_ms())

    def replace(self, path: str, body: bytes) -> None:
        _checked(path)
        self._client.run("write", path, lambda store: obstore.put(store, path, body, use_multipart=False))

    def require_size(self, path: str, size_bytes: int) -> ObjectMeta:
        meta = self.stat(path)
        if meta.size != size_bytes:
            raise StorageError(
                f"{size_bytes} bytes were uploaded but {path} has {meta.size}. No commit names this file; run the write"
                " again.",
                table=self._client.location.uri,
                path=path,
            )
        return meta

    def read_from(self, path: str, start: int) -> bytes:
        def request(store: Any) -> bytes:
            # A store answers a range of an empty object with an error.
            options: Any = {"range": {"offset": start}} if start else None
            found: bytes = obstore.get(store, path, options=options).bytes().to_bytes()
            return found

        _checked(path)
        return self._client.run("read", path, request)

    def open(self, path: str) -> Any:
        """The first request returns the size and the end of the object, where Parquet files have their footer. Azure
        refuses ranges that count from the end: there it returns the size and the beginning, which may be all."""
        if is_location(path):
            return self._elsewhere.open(path)
        size_bytes, tail = self._tail(_checked(path)) or (self.stat(path).size, b"")
        return pa.PythonFile(_ObjectInput(self._client, path, size_bytes, tail), mode="r")

    def _tail(self, path: str) -> tuple[int, bytes] | None:
        """The size and the last bytes. None if one request did not return them, as of an empty object. After a failure,
        the caller makes its own requests, which are retried."""
        from_end = self._client.location.cloud is not StorageKind.AZURE
        wanted = {"suffix": _TAIL_BYTES} if from_end else (0, _TAIL_BYTES)
        try:
            found = self._client.send_once(lambda store: obstore.get(store, path, options={"range": wanted}))
            size_bytes, body = int(found.meta["size"]), found.bytes().to_bytes()
            return size_bytes, body if from_end or len(body) == size_bytes else b""
        except FileNotFoundError as error:
            missing = self._client.translated("read", path, error)
        except BaseException as error:
            if not isinstance(error, Exception) and not is_panic(error):
                raise
            return None
        raise missing

    def stat(self, path: str) -> ObjectMeta:
        if is_location(path):
            return self._elsewhere.stat(path)
        _checked(path)
        return self._client.run("look at", path, lambda store: _meta(path, _head(store, path)))

    def list(
        self,
        folder: str = "",
        *,
        skip: SkipFolder | None = None,
        on_link: OnLink | None = None,
        start_after: str | None = None,
    ) -> Iterator[Sequence[ObjectMeta]]:
        """Skipped folders are still requested and then left out, since the store has no folders."""
        prefix = _checked(folder) if folder else None
        is_skipped = functools.lru_cache(maxsize=_FOLDERS_KEPT)(skip) if skip is not None else lambda path: False
        last = start_after or ""
        pages: Iterator[Any] | None = None

        def next_page(store: Any) -> Sequence[Any] | None:
            """The next page. After a broken answer, the next attempt starts after the last received name."""
            nonlocal pages
            if pages is None:
                pages = iter(obstore.list(store, prefix=prefix, offset=last or None, chunk_size=_LIST_PAGE))
            try:
                page: Sequence[Any] | None = next(pages, None)
            except BaseException:
                pages = None
                raise
            return page

        try:
            while (page := self._client.run("list", folder or ".", next_page)) is not None:
                # Azure's emulator ignores the offset.
                found = [_meta(entry["path"], entry) for entry in page if entry["path"] > last]
                last = max((meta.name for meta in found), default=last)
                yield [meta for meta in found if not any(map(is_skipped, folders_above(meta.name, folder)))]
        except NotFoundError:
            return

    def make_durable(self, paths: Iterable[str], *, with_contents: bool = False) -> None:
        """A finished upload is durable, and there are no directories."""

    def delete(self, path: str) -> None:
        _delete(self._client, _checked(path))

    def delete_many(self, paths: Sequence[str]) -> None:
        """In requests with many names if the store has them, otherwise in many parallel requests."""
        names = [_checked(path) for path in paths]
        try:
            if names:
                self._client.run("delete", names[0], lambda store: obstore.delete(store, names))
        except NotFoundError:  # some stores refuse the whole list for one missing name, and do not say which
            for name in names:
                _delete(self._client, name)


class ObjectOutputFile:
    """A data file being uploaded: one request if it is small, otherwise parts. Nothing is visible before `publish`."""

    def __init__(self, files: ObjectFileStore, client: ObjectClient, path: str) -> None:
        self._files = files
        self._client = client
        self._path = path
        self._first: list[bytes] = []  # until there is more than one part
        self._upload: Any = None
        self._sink = _ObjectSink(self._send)
        self._is_finished = False

    @property
    def sink(self) -> Any:
        return self._sink

    def publish(self) -> ObjectMeta:
        self._is_finished = True
        if self._upload is None:
            return self._files.write(self._path, b"".join(self._first))
        self._guard(self._upload.close)
        return self._files.require_size(self._path, self._sink.tell())

    def abort(self) -> None:
        """Abort the upload, and delete the file in case a lost answer hid a success. No other writer uses its name."""
        try:
            if not self._is_finished:
                self._is_finished = True
                if self._upload is not None:
                    self._upload.__exit__(RuntimeError, RuntimeError("aborted"), None)
            else:
                _delete(self._client, self._path)
        except BaseException as error:
            if not (isinstance(error, Exception) or is_panic(error)):
                raise

    def _send(self, data: memoryview) -> None:
        if self._upload is None:
            if self._sink.tell() + len(data) <= _UPLOAD_PART_BYTES:
                self._first.append(bytes(data))
                return
            self._begin_parts()
        self._guard(lambda: self._upload.write(data))

    def _begin_parts(self) -> None:
        self._upload = obstore.open_writer(
            self._client.store_for_upload(),
            self._path,
            buffer_size=_UPLOAD_PART_BYTES,
            max_concurrency=_UPLOAD_CONCURRENCY,
        )
        first, self._first = b"".join(self._first), []
        self._guard(lambda: self._upload.write(first))

    def _guard(self, request: Callable[[], Any]) -> None:
        try:
            request()
            return
        except BaseException as error:
            failure = self._client.translated("write", self._path, error)
        raise failure


class _ObjectSink(io.RawIOBase):
    """A file object for Arrow. obstore's own writer looks closed to Arrow and accepts no Arrow buffers."""

    def __init__(self, send: Callable[[memoryview], None]) -> None:
        super().__init__()
        self._send = send
        self._position = 0

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        self._send(view)
        self._position += len(view)
        return len(view)


class _ObjectInput(io.RawIOBase):
    """Ranges of an object as a file. Arrow reads whole column chunks, so each read is worth its request."""

    def __init__(self, client: ObjectClient, path: str, size_bytes: int, tail: bytes) -> None:
        super().__init__()
        self._client = client
        self._path = path
        self._size_bytes = size_bytes
        self._tail = tail  # the last bytes, which are already here
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def size(self) -> int:
        return self._size_bytes

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size_bytes}[whence]
        self._position = max(0, base + offset)
        return self._position

    def read(self, size: int = -1) -> bytes:
        start = self._position
        end = self._size_bytes if size is None or size < 0 else min(start + size, self._size_bytes)
        if end <= start:
            return b""
        tail_start = self._size_bytes - len(self._tail)
        if start >= tail_start:
            self._position = end
            return self._tail[start - tail_start : end - tail_start]
        data: bytes = self._client.run(
            "read",
            self._path,
            lambda store: obstore.get_range(store, self._path, start=start, end=end).to_bytes(),
        )
        self._position = start + len(data)
        return data


def bucket_files(
    location: Location, options: Mapping[str, Any] | None, credential_provider: Callable[[], Any] | None
) -> ObjectFileStore:
    """The files at ``location``, for a table elsewhere. Raises InvalidInputError for options that its cloud lacks."""
    return ObjectFileStore(ObjectClient(location, parse_options(options, location.cloud), credential_provider))


def object_table_store(
    location: Location, options: StorageOptions, credential_provider: Callable[[], Any] | None = None
) -> TableStore:
    """The stores of the table at ``location``. Raises InvalidInputError for options that the client refuses."""
    client = ObjectClient(location, options, credential_provider)
    client.validate()
    return TableStore(
        uri=location.uri,
        log=ObjectLogStore(client),
        files=ObjectFileStore(client),
        staging=ObjectLogStore(client, STAGING),
        commit_queue=MachineCommitQueue(_queue_name(location, options)),
        named_versions=ObjectLogStore(client, VERSIONS),
        iceberg=ObjectLogStore(client, ICEBERG),
        waiting=ObjectLogStore(client, WAITING),
    )


def _queue_name(location: Location, options: StorageOptions) -> str:
    """One name per table and server. A hash, since it may be shown and the endpoint may hold a password."""
    endpoint = next((options.config[name] for name in ("endpoint", "base_url") if name in options.config), "")
    return hashlib.sha256(f"{location.uri} {endpoint}".encode()).hexdigest()[:32]


def _md5(payload: memoryview) -> str:
    return hashlib.md5(payload, usedforsecurity=False).hexdigest()


def _delete(client: ObjectClient, path: str) -> None:
    try:
        client.run("delete", path, lambda store: obstore.delete(store, path))
    except NotFoundError:
        return


def _head(store: Any, path: str) -> Any:
    """The answer to HEAD. It has no words for a refusal, so those of GET are raised in its place."""
    try:
        return obstore.head(store, path)
    except FileNotFoundError:
        raise
    except Exception as error:
        answer = answer_of(error)
        if answer is not None and answer.meaning in ("refused", "exists") and not answer.code:
            obstore.get_range(store, path, start=0, length=1)
        raise


def _is_taken(answer: ErrorResponse | None) -> bool:
    return answer is not None and answer.meaning == "exists"


def _offset_before(root: str, start: str) -> str | None:
    """A key below every name >= ``start`` and above nearly every other: a store lists what is strictly greater."""
    if not start:
        return None
    below = chr(ord(start[-1]) - 1)
    return f"{root}/{start[:-1]}{below}z" if below.isalnum() else f"{root}/{start[:-1]}"


def _meta(name: str, entry: Any) -> ObjectMeta:
    return ObjectMeta(name=name, size=entry["size"], modified_ms=int(entry["last_modified"].timestamp() * 1000))


def _is_directly_in(folder: str, name: str) -> bool:
    above, _, last = name.rpartition("/")
    return above == folder and _NAME.fullmatch(last) is not None


def _checked(path: str) -> str:
    if not is_plain_path(path):
        raise StorageError(f"{path!r} is not a plain relative path; nothing was changed", path=path)
    return path
