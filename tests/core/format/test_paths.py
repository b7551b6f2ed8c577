"""Paths against rows observed from Spark, against deltalake's reader, and against paths meant to do harm."""

from __future__ import annotations

import datetime
import decimal
import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from txlog.core.format.partition_values import encode
from txlog.core.format.paths import (
    HIVE_NULL,
    DataPath,
    canonical_path,
    canonical_paths,
    encode_path,
    is_hidden,
    partition_directory,
    resolve_data_path,
    uri_of,
)
from txlog.core.format.schema import from_arrow, schema_to_json
from txlog.errors import CorruptLogError

ANY_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=80)


# (value, directory on the file system, add.path) as Spark writes them: delta-kernel-rs's table of observed rows.
# Where a row is not ASCII Spark leaves it raw in add.path; we escape it, as RFC 2396 asks: both decode alike.
@pytest.mark.parametrize(
    ("value", "directory", "uri_text"),
    [
        ("0", "p=0", "p=0"),
        (None, f"p={HIVE_NULL}", f"p={HIVE_NULL}"),
        ("", f"p={HIVE_NULL}", f"p={HIVE_NULL}"),
        ("1.7976931348623157E308", "p=1.7976931348623157E308", "p=1.7976931348623157E308"),
        ("2024-06-15 12:30:45", "p=2024-06-15 12%3A30%3A45", "p=2024-06-15%2012%253A30%253A45"),
        ("HELLO", "p=HELLO", "p=HELLO"),
        ("/=%", "p=%2F%3D%25", "p=%252F%253D%2525"),
        ("a{b", "p=a%7Bb", "p=a%257Bb"),
        ("a}b", "p=a}b", "p=a%7Db"),
        ("hello world", "p=hello world", "p=hello%20world"),
        ("a<b>c|d", "p=a<b>c|d", "p=a%3Cb%3Ec%7Cd"),
        ("a@b!c(d)", "p=a@b!c(d)", "p=a@b!c(d)"),
        ("a&b+c$d;e,f", "p=a&b+c$d;e,f", "p=a&b+c$d;e,f"),
        ("Serbia/srb%", "p=Serbia%2Fsrb%25", "p=Serbia%252Fsrb%2525"),
        ("100%25", "p=100%2525", "p=100%252525"),
        (" ", "p= ", "p=%20"),
        ("US/East", "p=US%2FEast", "p=US%252FEast"),
        ("a\nb", "p=a%0Ab", "p=a%250Ab"),
        ("it's *", "p=it%27s %2A", "p=it%2527s%20%252A"),
        ("..", "p=..", "p=.."),
    ],
)
def test_a_partition_has_the_directory_and_the_path_that_spark_gives_it(
    value: str | None, directory: str, uri_text: str
) -> None:
    assert partition_directory({"p": value}) == directory
    assert encode_path(directory) == uri_text
    assert resolve_data_path(uri_text) == DataPath(directory)


@pytest.mark.parametrize(
    ("value", "directory"),
    [("München", "p=M%C3%BCnchen"), ("🎵", "p=%F0%9F%8E%B5"), ("a\u00a0b\x85", "p=a%C2%A0b%C2%85")],
)
def test_a_partitions_directory_is_ascii_so_that_no_writer_spells_its_path_otherwise(
    value: str, directory: str
) -> None:
    """deltalake escapes other letters of a file that it removes, and compares paths as texts: its state keeps it."""
    assert partition_directory({"p": value}) == directory
    assert encode_path(directory) == directory.replace("%", "%25")


@pytest.mark.parametrize(
    ("directory", "uri_text"),
    [("p=München", "p=München"), ("p=🎵", "p=🎵"), ("a\u00a0b\u2028\x85", "a%C2%A0b%E2%80%A8%C2%85")],
)
def test_a_path_of_another_writer_with_other_letters_is_escaped_as_spark_does(directory: str, uri_text: str) -> None:
    assert encode_path(directory) == uri_text
    assert resolve_data_path(uri_text) == DataPath(directory)


def test_a_colon_is_escaped_only_where_it_would_end_a_scheme() -> None:
    for path, uri_text in (("a:b", "a%3Ab"), ("p=1/a:b", "p=1/a:b"), ("a:b/c:d", "a%3Ab/c:d"), ("/a:b/c", "/a:b/c")):
        assert encode_path(path) == uri_text
        assert resolve_data_path(uri_text) == DataPath(path)
        assert canonical_path(quote(path)) == canonical_path(uri_text) == uri_text
    assert uri_of("s3://bucket/a:b") == "s3://bucket/a:b"


def test_other_scripts_stay_raw_as_in_spark_and_both_forms_name_one_file() -> None:
    raw, escaped = "p=日本語/f.parquet", quote("p=日本語/f.parquet")
    assert encode_path(raw) == raw
    assert resolve_data_path(raw) == resolve_data_path(escaped) == DataPath(raw)
    assert canonical_path(raw) == canonical_path(escaped)


def test_exactly_the_characters_hive_escapes_are_escaped_in_a_directory() -> None:
    for code in range(0x80):
        expected = f"%{code:02X}" if code < 0x20 or code == 0x7F or chr(code) in "\"#%'*/:=?\\{[]^" else chr(code)
        assert partition_directory({"c": chr(code)}) == f"c={expected}"


def test_directories_nest_in_the_order_of_the_columns_and_escape_their_names() -> None:
    assert partition_directory({"a:b": "1", "c": None}) == f"a%3Ab=1/c={HIVE_NULL}"
    assert partition_directory({}) == ""


@pytest.mark.parametrize("long", ["x" * 300, "é" * 150, "%" * 90, "日" * 100])
def test_a_name_longer_than_a_file_system_takes_becomes_a_short_digest(long: str) -> None:
    directory = partition_directory({"day": "1", "p": long})
    assert directory.isalnum()
    assert directory.isascii()
    assert len(directory) == 32
    assert directory == partition_directory({"day": "1", "p": long})
    assert directory != partition_directory({"day": "1", "p": long + "y"})


def test_many_long_names_together_stay_below_the_limit_of_an_object_key() -> None:
    directory = partition_directory({f"column{n}": "x" * 150 for n in range(7)})
    assert len(directory) == 32
    assert partition_directory({f"column{n}": "x" * 150 for n in range(3)}).count("/") == 2


@given(column=ANY_TEXT.filter(bool), value=st.none() | ANY_TEXT)
def test_any_partition_gives_a_path_that_is_safe_and_reads_back(column: str, value: str | None) -> None:
    path = partition_directory({column: value}) + "/part-0.parquet"
    uri_text = encode_path(path)
    assert resolve_data_path(uri_text) == DataPath(path)
    assert canonical_path(uri_text) == uri_text
    assert all(len(name.encode()) <= 255 for name in path.split("/"))
    assert path.count("/") == 1


@pytest.mark.parametrize(
    ("uri_text", "path"),
    [
        ("bar%2Dbar.snappy.parquet", DataPath("bar-bar.snappy.parquet")),
        ("special%20p@%23h", DataPath("special p@#h")),
        ("time=1971-07-22T03:06:40.000000Z/f.parquet", DataPath("time=1971-07-22T03:06:40.000000Z/f.parquet")),
        ("a b", DataPath("a b")),
        ("_change_data/cdc-0.parquet", DataPath("_change_data/cdc-0.parquet")),
        ("/abs/x", DataPath("/abs/x")),
        ("file:/abs/x", DataPath("/abs/x", "file")),
        ("file:///abs/x%20y", DataPath("/abs/x y", "file")),
        ("S3://bucket/k/x", DataPath("/k/x", "s3", "bucket")),
        ("abfss://c@a.dfs.core.windows.net/x", DataPath("/x", "abfss", "c@a.dfs.core.windows.net")),
    ],
)
def test_a_path_of_the_log_is_decoded_once(uri_text: str, path: DataPath) -> None:
    assert resolve_data_path(uri_text) == path
    assert path.is_relative is (path.scheme is None and uri_text[0] != "/")


@pytest.mark.parametrize(
    "uri_text",
    [
        "",
        ".",
        "..",
        "../x",
        "a/../../x",
        "a/./x",
        "a//x",
        "a/",
        "%2E%2E/x",
        "a/%2e%2e/%2e%2e/etc/passwd",
        "a%2F..%2F..%2Fx",
        "/a/../x",
        "//host/share/x",
        "file:///a/%2E%2E/x",
        "s3://bucket",
        "s3://bucket/",
        "_delta_log/00000000000000000000.json",
        "%5Fdelta_log/00000000000000000000.json",
        "/abs/_delta_log/x",
        "a%00b",
        "a\x00b",
        "a%0Ab",
        "a\\b",
        "..%5Cx",
        "C:x",
        "javascript:alert(1)",
        "x?versionId=1",
        "x#fragment",
        "100%",
        "a%zz",
        "a%2",
        "a%FF%FE",
    ],
)
def test_a_path_no_writer_may_produce_is_a_corrupt_log(uri_text: str) -> None:
    with pytest.raises(CorruptLogError):
        resolve_data_path(uri_text)


@given(st.text(max_size=60))
def test_any_path_of_a_log_is_either_safe_or_refused(uri_text: str) -> None:
    try:
        path = resolve_data_path(uri_text).path
    except CorruptLogError:
        return
    segments = path.removeprefix("/").split("/")
    assert not {"", ".", "..", "_delta_log"}.intersection(segments)
    assert canonical_path(canonical_path(uri_text)) == canonical_path(uri_text)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("/some/unqualified/absolute/path", "file:/some/unqualified/absolute/path"),  # golden: canonicalized-paths-*
        ("/some/unqualified/absolute/path", "file:///some/unqualified/absolute/path"),
        ("s3a://b/k/x", "s3://b/k/x"),
        ("s3://b/k%20x", "S3://b/k x"),
        ("a%2Db", "a-b"),
        ("p=a%3ab", "p=a%3Ab"),
        ("caf%C3%A9", "café"),
    ],
)
def test_two_spellings_of_one_file_have_one_canonical_path(first: str, second: str) -> None:
    assert canonical_path(first) == canonical_path(second)


@pytest.mark.parametrize("spelling", ["%{:02X}", "%{:02x}"])
def test_a_needless_or_lower_case_escape_has_the_canonical_path_of_the_character(spelling: str) -> None:
    for code in range(0x80):
        assert canonical_path(f"a{spelling.format(code)}b") == encode_path(f"a{chr(code)}b")
        assert canonical_path(f"{spelling.format(code)}b") == encode_path(f"{chr(code)}b")


@pytest.mark.parametrize(
    ("first", "second"),
    [("a%252Fb", "a%2Fb"), ("a", "/a"), ("s3://b/k", "/k"), ("s3://b/k", "s3://c/k"), ("A", "a"), ("é", "e\u0301")],
)
def test_two_files_never_share_a_canonical_path(first: str, second: str) -> None:
    assert canonical_path(first) != canonical_path(second)


def test_an_array_has_the_same_canonical_paths_as_its_items(golden_lines: list[tuple[str, dict[str, Any]]]) -> None:
    texts = [
        action["path"] for _, line in golden_lines for key in ("add", "remove", "cdc") if (action := line.get(key))
    ]
    texts += ["/x", "file:/x", "s3a://b/c", "é", "a b", "plain"]
    assert len(texts) > 500
    assert canonical_paths(pa.array(texts)).to_pylist() == [canonical_path(text) for text in texts]
    assert canonical_paths(pa.chunked_array([["a", "b b"], [], ["/c"]])).to_pylist() == ["a", "b%20b", "/c"]
    assert canonical_paths(pa.array([], pa.string())).to_pylist() == []


def test_every_golden_path_resolves_but_one_that_climbs_out_of_its_table(
    golden_lines: list[tuple[str, dict[str, Any]]],
) -> None:
    paths = [line[key]["path"] for _, line in golden_lines for key in ("add", "remove", "cdc") if key in line]
    climbing = [path for path in paths if path.startswith("..")]
    assert len(climbing) == 1
    with pytest.raises(CorruptLogError, match="leave its directory"):
        resolve_data_path(climbing[0])
    for path in set(paths).difference(climbing):
        assert resolve_data_path(path).path


STRINGS = [
    *("US/East", "100%", "%25", "a=b", " lead and trail ", "München", "日本語", "🎵🎶", "e\u0301", "a\nb", "..", "."),
    *("it's", '"q"', "back\\slash", "{}[]^`|<>", "?#&+;,", "x" * 300, "__HIVE_DEFAULT_PARTITION__x", None, ""),
]
PARTITION_COLUMNS = {
    "text": pa.array(STRINGS),
    "binary": pa.array([b"raw/bytes", "é=".encode(), None]),
    "boolean": pa.array([True, False, None]),
    "tiny": pa.array([127, -128, None], pa.int8()),
    "big": pa.array([2**63 - 1, -(2**63), None], pa.int64()),
    "date": pa.array([datetime.date(1, 1, 1), datetime.date(9999, 12, 31), None]),
    "timestamp": pa.array([0, 1_718_479_845_000_001, -62_135_596_800_000_000, None]).cast(pa.timestamp("us", "UTC")),
    "ntz": pa.array([0, 1_718_479_845_000_001, 500_000, None]).cast(pa.timestamp("us")),
    "decimal": pa.array([decimal.Decimal("0"), decimal.Decimal("-1.23"), None], pa.decimal128(38, 18)),
    "double": pa.array([1.7976931348623157e308, 5e-324, 0.1, 1e7, float("inf"), None]),
    "single": pa.array([3.4028234663852886e38, 0.1, 1e-3, None], pa.float32()),
}


@pytest.mark.parametrize("name", PARTITION_COLUMNS)
def test_deltalake_reads_every_partition_as_we_encode_it(name: str, tmp_path: Path) -> None:
    values = PARTITION_COLUMNS[name]
    write_partitioned_table(tmp_path, values)
    query = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(str(tmp_path)))
    rows = pa.table(query.execute("SELECT n, p FROM t ORDER BY n"))
    expected = [value or None if isinstance(value, (str, bytes)) else value for value in values.to_pylist()]
    assert rows.column("n").to_pylist() == list(range(len(values)))
    assert rows.column("p").cast(values.type).to_pylist() == expected


def write_partitioned_table(root: Path, values: pa.Array) -> None:
    """A table of one row a partition, written with nothing but this layer and a Parquet writer."""
    schema = from_arrow(pa.schema([("n", pa.int64()), ("p", values.type)]))
    ntz = ["timestampNtz"] if values.type == pa.timestamp("us") else None
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ntz, "writerFeatures": ntz}
    actions: list[dict[str, Any]] = [
        {"protocol": protocol if ntz else {"minReaderVersion": 1, "minWriterVersion": 2}},
        {
            "metaData": {
                "id": "5fba94ed-9794-4965-ba6e-6ee3c0d22af9",
                "format": {"provider": "parquet", "options": {}},
                "schemaString": schema_to_json(schema),
                "partitionColumns": ["p"],
                "configuration": {},
            }
        },
    ]
    for number, value in enumerate(values):
        text = encode(value, schema.fields[1].type)
        path = f"{partition_directory({'p': text})}/part-{number}.parquet"
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"n": [number]}), file)
        add = {"path": encode_path(path), "partitionValues": {"p": text}, "size": file.stat().st_size}
        actions.append({"add": {**add, "modificationTime": 0, "dataChange": True}})
    log = root / "_delta_log"
    log.mkdir()
    (log / f"{0:020}.json").write_text("".join(json.dumps(action) + "\n" for action in actions))


@pytest.mark.parametrize(
    ("path", "hidden"),
    [
        ("part-0.parquet", False),
        ("day=1/part-0.parquet", False),
        ("deletion_vector_x.bin", False),
        ("_delta_log/0.json", True),
        ("_txlog/staging/a", True),
        ("day=1/.part-0.parquet.inprogress", True),
        ("day=1/_SUCCESS", True),
        ("_change_data/cdc-0.parquet", False),
        ("_delta_index/bloom", False),
        ("metadata/v1.metadata.json", True),
        ("_day=1/part-0.parquet", False),
        ("_day%3D=1/part-0.parquet", True),
        ("%5Fday=1/part-0.parquet", False),
        ("_other=1/part-0.parquet", True),
        ("_day=1/.crc", True),
    ],
)
def test_the_same_paths_are_hidden_from_a_vacuum_as_in_delta(path: str, hidden: bool) -> None:
    """DeltaTableUtils.isHiddenDirectory, for a table partitioned by ``_day``."""
    assert is_hidden(path, ["_day"]) is hidden
