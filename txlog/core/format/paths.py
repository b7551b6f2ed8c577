"""Paths of data files: the Hive-style directory of a partition, and the URI text of ``add.path``.

Three forms, never mixed: *partition text* ("US/East"), *path* ("region=US%2FEast/part-0.parquet", as
stores take it) and *URI text* ("region=US%252FEast/part-0.parquet", as the log has it). Writing escapes twice,
reading decodes once. PROTOCOL.md, "Add File and Remove File", "Action Reconciliation".
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import TypeVar

import msgspec
import pyarrow as pa

from txlog.core.util import pattern
from txlog.errors import ASK_VERIFY, CorruptLogError, InvalidInputError

HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"
"""The directory name of a null (or empty) partition value."""

IN_PROGRESS = ".inprogress"
"""Ends the hidden name under which txlog writes a data file on a local disk."""

_NAME_BYTES_MAX = 200
"""One directory name: file systems allow 255 bytes, and some add a suffix."""
_DIRECTORY_BYTES_MAX = 600
"""All of them together: an object's key, with the table's prefix and the file's name, has at most 1,024 bytes."""

_HIVE_ESCAPED = {code: f"%{code:02X}" for code in (*range(0x20), 0x7F, *b"\"#%'*/:=?\\{[]^")}
_URI_UNESCAPED = "/-_.!~*'(),;$&+=@"
"""Characters besides letters and digits. A colon is one too, but not before the first slash, where it ends a scheme."""
_OTHER_SCRIPTS = "".join(
    f"{chr(first)}-{chr(last)}"
    for first, last in (
        *((0xA1, 0x167F), (0x1681, 0x1FFF), (0x200B, 0x2027), (0x202A, 0x202E), (0x2030, 0x205E), (0x2060, 0x2FFF)),
        *((0x3001, 0xD7FF), (0xE000, 0x10FFFF)),
    )
)
"""All characters beyond ASCII but control characters and spaces, which Java's URIs escape. Spark writes them as they
are, and its VACUUM compares texts: it deletes a live file whose path has them escaped."""

_UNIT = rf"[A-Za-z0-9\-_.!~*'(),;$&+=@{_OTHER_SCRIPTS}]|%(?:[01][0-9A-F]|2[0235]|3[CEF]|5[B-E]|60|7[BCDF])"
_CANONICAL = rf"(?:{_UNIT}|%3A)+(?:/(?:{_UNIT}|[/:])*)?"
"""A relative path as `encode_path` writes it, unless a control character or space beyond ASCII is escaped in it."""
_CANONICAL_PATH = pattern(_CANONICAL)
_PLAIN_SEGMENT = r"(?!_delta_log)[A-Za-z0-9_][A-Za-z0-9_.=-]*"
_PLAIN_PATH = pattern(rf"{_PLAIN_SEGMENT}(?:/{_PLAIN_SEGMENT})*")
"""Nearly every path matches: relative, nothing escaped, no segment with a special meaning."""
_NEEDS_NO_ESCAPE = pattern(rf"[A-Za-z0-9{re.escape(_URI_UNESCAPED)}{_OTHER_SCRIPTS}]*")
_NEEDS_ESCAPE = pattern(rf"[^A-Za-z0-9:{re.escape(_URI_UNESCAPED)}{_OTHER_SCRIPTS}]+")
_ABSOLUTE = pattern(r"([A-Za-z][A-Za-z0-9+.-]*):(?://([^/]*))?(/.*)", re.DOTALL)
_SCHEME = pattern(r"[A-Za-z][A-Za-z0-9+.-]*:")
_BAD_ESCAPE = pattern(r"%(?![0-9A-Fa-f]{2})")
_FORBIDDEN = pattern(r"[\x00-\x1f\x7f\\]")
_CONTROL = pattern("[\x00-\x1f\x7f\ud800-\udfff]")
"""No store takes these; all others are text to it, however it is shown."""
_SAME_SCHEME = {"s3a": "s3", "s3n": "s3"}


def is_hidden(path: str, partition_columns: Collection[str] = ()) -> bool:
    """Whether a vacuum skips a path, as Delta's does: the log, staging, files in progress, Iceberg metadata.

    A path is hidden if one of its segments begins with ``_`` or ``.``, or is ``metadata``. Change data, bloom filter
    indexes, and directories of partition columns whose (physical) names begin this way are not hidden.
    """
    return any(
        segment == "metadata" or (segment[:1] in ("_", ".") and not _is_of_the_table(segment, partition_columns))
        for segment in path.split("/")
    )


def _is_of_the_table(segment: str, partition_columns: Collection[str]) -> bool:
    if segment.startswith(("_change_data", "_delta_index")):
        return True
    from urllib.parse import unquote

    column, equals, _ = segment.partition("=")
    return bool(equals) and unquote(column) in partition_columns


def hidden_columns(path: str) -> set[str]:
    """The names ``_x`` of the folders ``_x=...`` above a file, which is hidden unless they are partition columns."""
    from urllib.parse import unquote

    folders = (segment.partition("=") for segment in path.split("/")[:-1] if segment[:1] in ("_", "."))
    return {unquote(name) for name, equals, _ in folders if equals}


def is_plain_path(path: str) -> bool:
    """Whether a path leads downward and is text: no segment is empty, ``.`` or ``..``, and no letter is a control
    character or half of a surrogate pair."""
    return not any(segment in ("", ".", "..") for segment in path.split("/")) and _CONTROL.search(path) is None


def is_folder_marker(path: str, size_bytes: int) -> bool:
    """Whether an object only says that a folder exists: it is empty, and its name is a folder's.

    Some programs leave ``p=x_$folder$`` (Amazon EMR, old Hadoop), others ``p=x/`` (the S3 console, S3A, rclone), which
    some clients list as ``p=x``. A data file's name ends in a suffix such as ``.parquet``; a folder's value may have
    a dot, as ``p=1.5``.
    """
    if size_bytes:
        return False
    name = path.rstrip("/").rpartition("/")[2]
    return path.endswith(("/", "_$folder$")) or "." not in name or "=" in name


def is_in_progress(path: str, partition_columns: Collection[str] = ()) -> bool:
    """Whether a path is the hidden name under which txlog writes a data file: an old one was left by a crash."""
    folder, _, name = path.rpartition("/")
    return name[:1] == "." and name.endswith(IN_PROGRESS) and not (folder and is_hidden(folder, partition_columns))


# --- writing --------------------------------------------------------------------------------------------------


def partition_directory(partition_values: Mapping[str, str | None]) -> str:
    """The directory for files of this partition, ``"year=2024/city=S%C3.."`` as a path; ``""`` for no partition.

    ``partition_values`` is column -> text (`partition_values.encode`), in the table's order. If the names would
    be too long for a file system or an object key, a digest replaces them: readers use ``partitionValues``, never the
    directory.
    """
    names = [f"{_hive_escape(column)}={_hive_escape(text or HIVE_NULL)}" for column, text in partition_values.items()]
    directory = "/".join(names)
    sizes = [len(name.encode()) for name in names]
    if max(sizes, default=0) > _NAME_BYTES_MAX or sum(sizes) > _DIRECTORY_BYTES_MAX:
        from hashlib import sha256

        return sha256(directory.encode()).hexdigest()[:32]
    return directory


def encode_path(path: str) -> str:
    """The URI text of a path relative to the table, the form of ``add.path``, escaped as Java and Spark escape it."""
    if _PLAIN_PATH.fullmatch(path) or _NEEDS_NO_ESCAPE.fullmatch(path):
        return path
    from urllib.parse import quote  # a plain path needs none of its modules

    first, slash, rest = _NEEDS_ESCAPE.sub(lambda found: quote(found[0], safe=""), path).partition("/")
    return f"{first.replace(':', '%3A')}{slash}{rest}"


def hive_directory(partition_values: Mapping[str, str | None]) -> str:
    """The directory of this partition as Hive and Spark name it, for programs that look for it by its name."""
    pairs = [(column, text or HIVE_NULL) for column, text in partition_values.items()]
    return "/".join(f"{column.translate(_HIVE_ESCAPED)}={text.translate(_HIVE_ESCAPED)}" for column, text in pairs)


def _hive_escape(text: str) -> str:
    escaped = text.translate(_HIVE_ESCAPED)
    if escaped.isascii():
        return escaped
    from urllib.parse import quote

    # No engine has a letter to write in another way: deltalake escapes those beyond ASCII, and compares paths as texts.
    return "".join(letter if letter.isascii() else quote(letter, safe="") for letter in escaped)


# --- reading --------------------------------------------------------------------------------------------------


class DataPath(msgspec.Struct, frozen=True):
    """A decoded path. Relative to the table's root, or absolute: then it starts with ``/``.

    ``scheme`` ("s3", "file"; lower case) and ``authority`` (bucket, host) are None and "" if the log names none.
    The caller that opens an absolute path decides whether it may leave the table's root.
    """

    path: str
    scheme: str | None = None
    authority: str = ""

    @property
    def is_relative(self) -> bool:
        return not self.path.startswith("/")


def resolve_data_path(uri_text: str) -> DataPath:
    """The path that ``add.path`` (or remove, cdc) names, decoded exactly once and safe to join to a root.

    Raises CorruptLogError for paths that no writer may produce: empty, ``.`` or ``..`` segments, control characters,
    backslashes, a path into ``_delta_log``, a query or fragment, escapes that are malformed or not UTF-8.
    """
    if _PLAIN_PATH.fullmatch(uri_text):
        return DataPath(uri_text)
    found = _decoded(uri_text)
    segments = found.path.split("/")[0 if found.is_relative else 1 :]
    if any(segment in ("", ".", "..", "_delta_log") for segment in segments) or _FORBIDDEN.search(found.path):
        raise _bad_path(uri_text, "it may not leave its directory, enter _delta_log or hold control characters")
    return found


def readable_path(uri_text: str) -> str:
    """The same text, for a file that is to be named in a log. Raises InvalidInputError if readers would refuse it."""
    try:
        resolve_data_path(uri_text)
    except CorruptLogError:
        raise InvalidInputError(
            f"a Delta table cannot name the file {_unescape(uri_text, uri_text)!r}: its path has a backslash, a control"
            " character, or a folder that no path may name. Give it, or the folder, another name"
        ) from None
    return uri_text


def path_below(root_uri: str, found: DataPath) -> str | None:
    """The path relative to a table's root (a local path or a URI, not escaped); None if it is elsewhere."""
    if found.is_relative:
        return found.path
    scheme, separator, rest = root_uri.partition("://")
    authority, slash, path = rest.partition("/") if separator else ("", "", root_uri)
    ours = (_SAME_SCHEME.get(scheme, scheme) if separator else "file", authority)
    theirs = (_SAME_SCHEME.get(found.scheme or "file", found.scheme or "file"), found.authority)
    prefix = f"{slash}{path}".rstrip("/") + "/"
    if ours != theirs or not found.path.startswith(prefix):
        return None
    return found.path[len(prefix) :]


def location_of(found: DataPath) -> str:
    """An absolute path as stores take it, not escaped: ``/data/t/a.parquet``, or ``s3://bucket/t/a.parquet``."""
    if found.scheme in (None, "file") and found.authority in ("", "localhost"):
        return found.path
    return f"{found.scheme}://{found.authority}{found.path}"


def uri_of(root: str) -> str:
    """A table's location (a local path or a URI, not escaped) as the beginning of absolute paths in a log.

    On a disk it begins with ``file:/``: Spark compares such paths as text, and fails on ``file:///``.
    """
    scheme, separator, rest = root.partition("://")
    if not separator:
        return f"file:{encode_path(root)}"
    authority, slash, path = rest.partition("/")
    return f"{scheme}://{authority}{encode_path(slash + path)}"


def stored_path(root_uri: str, found: DataPath) -> str:
    """A file as the store of the table at ``root_uri`` takes it: relative to the root, or as its `location_of`."""
    path = path_below(root_uri, found)
    return location_of(found) if path is None else path


def is_location(path: str) -> bool:
    """Whether a path of a store is the location of a file outside the table's root. No relative path looks like one."""
    return path.startswith("/") or "://" in path


def canonical_path(uri_text: str) -> str:
    """One spelling for all URI texts of the same file, to compare an ``add`` with a ``remove``.

    ``/x``, ``file:/x`` and ``file:///x`` are one file, as are ``s3a://b/k`` and ``s3://b/k``, and any two ways to
    escape the same characters. Raises CorruptLogError if the text cannot be decoded.
    """
    if uri_text.startswith("file:/") and _PLAIN_PATH.fullmatch(uri_text, 6):  # as in the log of a branch
        return uri_text[5:]
    if _PLAIN_PATH.fullmatch(uri_text) or _CANONICAL_PATH.fullmatch(uri_text):
        return uri_text
    found = _decoded(uri_text)
    encoded = encode_path(found.path)
    if found.scheme in (None, "file"):
        return encoded
    return f"{_SAME_SCHEME.get(found.scheme or '', found.scheme)}://{found.authority}{encoded}"


Texts = TypeVar("Texts", pa.StringArray, pa.ChunkedArray)


def canonical_paths(uri_texts: Texts) -> Texts:
    """`canonical_path` of a whole array (``pa.string()``, no nulls); paths that are already canonical cost no Python
    code. Chunks stay chunks: the paths of a table may be more text than one array holds."""
    from txlog.core.format.arrow.compute import pc

    if isinstance(uri_texts, pa.ChunkedArray):
        return pa.chunked_array([canonical_paths(chunk) for chunk in uri_texts.chunks], pa.string())
    others = pc.invert(pc.match_substring_regex(uri_texts, f"^(?:{_CANONICAL})$"))
    rewritten = [canonical_path(text) for text in uri_texts.filter(others).to_pylist()]
    return pc.replace_with_mask(uri_texts, others, pa.array(rewritten, pa.string())) if rewritten else uri_texts


def _decoded(uri_text: str) -> DataPath:
    if "?" in uri_text or "#" in uri_text:
        raise _bad_path(uri_text, "it has a query or a fragment; a literal '?' or '#' must be escaped")
    absolute = _ABSOLUTE.fullmatch(uri_text)
    if absolute:
        return DataPath(_unescape(uri_text, absolute[3]), absolute[1].lower(), absolute[2] or "")
    if _SCHEME.match(uri_text):
        raise _bad_path(uri_text, "it has a scheme but no absolute path")
    return DataPath(_unescape(uri_text, uri_text))


def _unescape(uri_text: str, part: str) -> str:
    if _PLAIN_PATH.fullmatch(part) or _NEEDS_NO_ESCAPE.fullmatch(part):
        return part
    if _BAD_ESCAPE.search(part):
        raise _bad_path(uri_text, "it has a '%' that starts no escape")
    from urllib.parse import unquote_to_bytes

    try:
        return unquote_to_bytes(part).decode()
    except ValueError:
        raise _bad_path(uri_text, "its escapes are not UTF-8") from None


def _bad_path(uri_text: str, why: str) -> CorruptLogError:
    return CorruptLogError(f"the log names a data file by the path {uri_text[:200]!r}: {why}", repair=ASK_VERIFY)
