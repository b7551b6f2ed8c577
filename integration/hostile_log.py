"""Logs for a fuzzer: one small table in each shape a log can have, and mutations of its files.

In: a directory, and a source of chance. Out: a damaged copy of the table, and the outcome of each library call on it.
All choices come from one `random.Random`, so hypothesis can drive it and shrink what it finds. As a program it damages
one log after the other, starting at a seed, and writes down which, so a crash can be repeated.
"""

from __future__ import annotations

import json
import random
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hostile_data
import pyarrow as pa
import pyarrow.parquet as pq

import txlog
from txlog.audit.verify import verify_table
from txlog.core.store import open_store
from txlog.core.versions.upkeep._version_checksum import write_checksum
from txlog.errors import TxlogError

SHAPES = ("commits", "classic", "multi-part", "v2 in JSON", "v2 in Parquet", "compacted", "checksum")
_UUID = "80a083e8-7026-4e79-81be-64bd76c43a11"
_LOG = "_delta_log"

# --- tables -------------------------------------------------------------------------------------------------------


def build_tables(root: Path) -> dict[str, Path]:
    """A table of five versions for each of ``SHAPES``; version 3 is the one that is in a checkpoint."""
    plain = root / "commits"
    table = txlog.Table.create(
        str(plain),
        pa.schema([("id", pa.int64()), ("name", pa.string()), ("day", pa.string())]),
        ("day",),
        properties={"delta.checkpoint.writeStatsAsStruct": "true"},
    )
    for number in range(4):
        rows = pa.table({"id": [number, number + 10], "name": ["a", None], "day": ["x y", "ü%"]})
        table.append(rows, app_id="app", checkpoint_id=number)
    for shape in SHAPES[1:]:
        shutil.copytree(plain, root / shape)
    for shape in SHAPES[1:5]:
        _checkpoint_at_3(root / shape, shape)
    _compact(root / "compacted" / _LOG)
    log = txlog.Table.open(str(root / "checksum"))._open_table.log
    assert write_checksum(log, log.newest_state())
    return {shape: root / shape for shape in SHAPES}


def _checkpoint_at_3(path: Path, shape: str) -> None:
    log = path / _LOG
    last = log / f"{4:020d}.json"
    body = last.read_bytes()
    last.unlink()
    txlog.Table.open(str(path)).create_checkpoint()
    (log / f"{3:020d}.crc").unlink()  # so that opening reads the checkpoint
    last.write_bytes(body)
    classic = log / f"{3:020d}.checkpoint.parquet"
    if shape != "classic":
        _reshape(log, classic, shape)
    (log / f"{0:020d}.json").unlink()  # so a reader has no fallback


def _reshape(log: Path, classic: Path, shape: str) -> None:
    whole = pq.read_table(classic)
    classic.unlink()
    hint: dict[str, Any] = {"version": 3, "size": whole.num_rows}
    if shape == "multi-part":
        half = whole.num_rows // 2
        for part, rows in enumerate((whole.slice(0, half), whole.slice(half)), start=1):
            pq.write_table(rows, log / f"{3:020d}.checkpoint.{part:010d}.{2:010d}.parquet")
        hint["parts"] = 2
    else:
        name = f"{3:020d}.checkpoint.{_UUID}.{'json' if shape == 'v2 in JSON' else 'parquet'}"
        hint["v2Checkpoint"] = {"path": name}
        _write_v2(log, name, whole)
    (log / "_last_checkpoint").write_text(json.dumps(hint))


def _write_v2(log: Path, name: str, whole: pa.Table) -> None:
    (log / "_sidecars").mkdir()
    sidecar = log / "_sidecars" / f"{_UUID}.parquet"
    is_file = [bool(row) for row in whole.column("add").to_pylist()]
    pq.write_table(whole.filter(pa.array(is_file)).select(["add"]), sidecar)
    small = [
        {key: _json_value(key, value) for key, value in row.items() if value}
        for row, skip in zip(whole.drop_columns(["add", "remove"]).to_pylist(), is_file, strict=True)
        if not skip
    ]
    small.append({"checkpointMetadata": {"version": 3}})
    small.append(
        {"sidecar": {"path": sidecar.name, "sizeInBytes": sidecar.stat().st_size, "modificationTime": 1700000000000}}
    )
    if name.endswith(".json"):
        (log / name).write_text("".join(json.dumps(action) + "\n" for action in small))
        return
    kept = whole.filter(pa.array([not each for each in is_file])).drop_columns(["add", "remove"])
    extra = pa.Table.from_pylist([{**small[-1], "checkpointMetadata": None}, small[-2]])
    pq.write_table(pa.concat_tables([kept, extra], promote_options="default"), log / name)


def _json_value(key: str, value: dict[str, Any]) -> dict[str, Any]:
    """A checkpoint row as a commit writes it: maps are objects, what is null is left out."""
    found = {name: item for name, item in value.items() if item is not None}
    if key == "metaData":
        found["configuration"] = dict(found.get("configuration") or [])
        found["format"] = {"provider": "parquet", "options": {}}
        found.setdefault("partitionColumns", ["day"])
    return found


def _compact(log: Path) -> None:
    lines = [line for version in (1, 2, 3) for line in (log / f"{version:020d}.json").read_text().splitlines()]
    kept = [line for line in lines if not line.startswith('{"commitInfo"')]
    txns = [line for line in kept if line.startswith('{"txn"')]
    body = [line for line in kept if line not in txns] + txns[-1:]
    (log / f"{1:020d}.{3:020d}.compacted.json").write_text("\n".join(body) + "\n")


# --- mutations ----------------------------------------------------------------------------------------------------

HOSTILE_VALUES: tuple[str, ...] = (
    "null", "true", "0", "-1", "1e400", "NaN", "-Infinity", "18446744073709551616", "9223372036854775807",
    "9223372036854775808", "-9223372036854775809", "1.5", "1E3",
    '""', '"x"', '"\\u0000"', '"\\ud800"', '"\\udfff\\ud800"',
    '"../../../../etc/passwd"', '"/etc/passwd"', '"file:///etc/passwd"',
    '"http://169.254.169.254/latest"', '"s3://other/k"',
    '"%2e%2e/x"', '"%252e%252e/x"', '"a%00b"', '"a\\\\b"', '"%"', '"%zz"', '"%ff"',
    '"_delta_log/00000000000000000000.json"',
    "[]", "[null]", "[[]]", "{}", '{"": null}', '{"a": {"a": {"a": 1}}}', '[1, "x", null]', '{"id": 1, "id": 2}',
    '"' + "9" * 400 + '"', "9" * 400,
    "[" * 2000 + "]" * 2000, '{"a":' * 1100 + "1" + "}" * 1100, '"{\\"numRecords\\": 1e999}"',
    '"{\\"minValues\\": [], \\"numRecords\\": -1}"', '"{"', '"[]"', '"{\\"type\\":\\"struct\\",\\"fields\\":[{}]}"',
    '"{\\"type\\":\\"struct\\",\\"fields\\":[]}"', '"decimal(99,99)"', '"99999-99-99"',
)  # fmt: skip


@dataclass(frozen=True)
class Mutation:
    """What was done, as a person reads it, and to which file of the table."""

    file: str
    what: str


def mutate(table: Path, rng: random.Random) -> Mutation:
    """Damage one file of the log, or add one, and say how."""
    files = sorted(path for path in (table / _LOG).rglob("*") if path.is_file())
    binary = [path for path in files if path.suffix == ".parquet"]
    target = rng.choice([*files, *binary, *binary])  # most files are commits
    text = target.suffix in (".json", ".crc") or target.name == "_last_checkpoint"
    what = rng.choice(_TEXT_MUTATIONS if text else _BINARY_MUTATIONS)
    done = what(target, rng)
    return Mutation(str(target.relative_to(table)), f"{what.__name__.strip('_')}: {done}")


def _replace_value(path: Path, rng: random.Random) -> str:
    """One value anywhere in one line becomes a hostile one (or goes, or comes twice)."""
    lines = path.read_bytes().splitlines() or [b"{}"]
    number = rng.randrange(len(lines))
    try:
        value = json.loads(lines[number])
    except (ValueError, RecursionError):
        return _flip_bytes(path, rng)
    places = list(_places(value))
    if not places:
        return _flip_bytes(path, rng)
    place = rng.choice(places)
    hostile = rng.choice((*HOSTILE_VALUES, "delete", "rename"))
    lines[number] = _edited(value, place, hostile).encode("utf-8", "surrogatepass")
    path.write_bytes(b"\n".join(lines) + b"\n")
    return f"line {number + 1}, {'.'.join(map(str, place))} -> {hostile[:80]}"


def _places(value: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield (*above, key)
        yield from _places(item, (*above, key))


def _edited(value: Any, place: tuple[Any, ...], hostile: str) -> str:
    holder = value
    for key in place[:-1]:
        holder = holder[key]
    if hostile == "delete":
        del holder[place[-1]]
    elif hostile == "rename":
        if isinstance(holder, dict):
            holder[f"{place[-1]} "] = holder.pop(place[-1])
    else:
        holder[place[-1]] = "<<hostile>>"
        return json.dumps(value).replace('"<<hostile>>"', hostile)
    return json.dumps(value)


def _edit_embedded(path: Path, rng: random.Random) -> str:
    """One value inside JSON that stands as text inside JSON: ``schemaString``, ``stats``."""
    lines = path.read_bytes().splitlines() or [b"{}"]
    candidates = []
    for number, line in enumerate(lines):
        try:
            action = json.loads(line)
        except (ValueError, RecursionError):
            continue
        for key, name in (("metaData", "schemaString"), ("add", "stats"), ("remove", "stats")):
            inner = action.get(key) if isinstance(action, dict) else None
            if isinstance(inner, dict) and isinstance(inner.get(name), str):
                candidates.append((number, action, key, name))
    if not candidates:
        return _replace_value(path, rng)
    number, action, key, name = rng.choice(candidates)
    try:
        embedded = json.loads(action[key][name])
    except (ValueError, RecursionError):
        return _replace_value(path, rng)
    places = list(_places(embedded))
    if not places:
        return _replace_value(path, rng)
    place = rng.choice(places)
    hostile = rng.choice((*HOSTILE_VALUES, "delete", "rename"))
    action[key][name] = _edited(embedded, place, hostile)
    lines[number] = json.dumps(action).encode()
    path.write_bytes(b"\n".join(lines) + b"\n")
    return f"line {number + 1}, {key}.{name}.{'.'.join(map(str, place))} -> {hostile[:80]}"


def _edit_lines(path: Path, rng: random.Random) -> str:
    lines = path.read_bytes().splitlines()
    number = rng.randrange(len(lines) + 1)
    what = rng.choice(("drop", "double", "blank", "array", "two actions", "scalar"))
    if what == "drop":
        lines = lines[:number] + lines[number + 1 :]
    elif what == "double":
        lines = lines[:number] + lines[max(0, number - 1) : number] + lines[number:]
    else:
        extra = {"blank": b"  ", "array": b"[1]", "two actions": b'{"txn":{},"add":{}}', "scalar": b"7"}[what]
        lines.insert(number, extra)
    path.write_bytes(b"\n".join(lines) + b"\n")
    return f"{what} at line {number + 1}"


def _flip_bytes(path: Path, rng: random.Random) -> str:
    body = bytearray(path.read_bytes())
    places = [rng.randrange(len(body)) for _ in range(rng.randint(1, 8))] if body else []
    for place in places:
        body[place] = rng.randrange(256)
    path.write_bytes(bytes(body))
    return f"bytes {places}"


def _truncate(path: Path, rng: random.Random) -> str:
    body = path.read_bytes()
    size = rng.randint(0, len(body))
    path.write_bytes(body[:size])
    return f"to {size} of {len(body)} bytes"


def _insert_bytes(path: Path, rng: random.Random) -> str:
    body = path.read_bytes()
    place = rng.randint(0, len(body))
    extra = rng.choice((b"\0", b"\xff", b"\r", b"\n", b"\xef\xbb\xbf", b"}", b'"', b"PAR1", body[:64]))
    path.write_bytes(body[:place] + extra + body[place:])
    return f"{extra!r} at {place}"


def _damage_footer(path: Path, rng: random.Random) -> str:
    body = path.read_bytes()
    if len(body) < 12 or body[-4:] != b"PAR1":
        return _flip_bytes(path, rng)
    path.write_bytes(hostile_data.damage_footer(body, rng))
    return "its footer"


def _become_another(path: Path, rng: random.Random) -> str:
    other = rng.choice(sorted(each for each in path.parent.iterdir() if each.is_file()))
    path.write_bytes(other.read_bytes())
    return f"the bytes of {other.name}"


def _retype_parquet(path: Path, rng: random.Random) -> str:
    """One column, or one member of an action, gets another type, loses its values, or goes."""
    try:
        table = pq.read_table(path)
    except (pa.ArrowException, OSError):
        return _flip_bytes(path, rng)
    name = rng.choice(table.schema.names)
    rows = table.column(name).to_pylist()
    what = rng.choice(("drop", "null", "text", "number", "list", "member"))
    rest = table.drop_columns([name])
    if what == "drop":
        changed = rest
    elif what == "member":
        changed, what = _with_hostile_member(table, name, rows, rng)
    else:
        made = {"null": None, "text": "x", "number": 1 << 62, "list": [{"a": 1}]}[what]
        changed = rest.append_column(name, pa.array([made] * len(rows)))
    if not changed.num_columns:
        return _truncate(path, rng)
    pq.write_table(changed, path)
    return f"{name}: {what}"


_MEMBERS: tuple[Any, ...] = (None, -1, 1 << 62, 1.5, "", "x", "../x", "%zz", b"\xff\xfe", [], [None], {"a": 1}, True)


def _with_hostile_member(table: pa.Table, name: str, rows: list[Any], rng: random.Random) -> tuple[pa.Table, str]:
    column = table.column(name).combine_chunks()
    if not pa.types.is_struct(column.type):
        return table, "member of no struct"
    fields = list(column.type)
    place = rng.randrange(len(fields))
    hostile = rng.choice(_MEMBERS)
    arrays = [pa.array([hostile] * len(rows)) if at == place else each for at, each in enumerate(column.flatten())]
    names = [field.name for field in fields]
    changed = pa.StructArray.from_arrays(arrays, names, mask=column.is_null())
    try:
        return table.set_column(table.schema.get_field_index(name), name, changed), f"{names[place]} = {hostile!r}"
    except pa.ArrowException:
        return table, "nothing"


_ANY: list[Callable[[Path, random.Random], str]] = [_flip_bytes, _truncate, _insert_bytes, _become_another]
_TEXT_MUTATIONS = [_replace_value, _replace_value, _replace_value, _edit_embedded, _edit_embedded, _edit_lines, *_ANY]
_BINARY_MUTATIONS = [_retype_parquet, _retype_parquet, _damage_footer, _damage_footer, _damage_footer, *_ANY]

# --- what the library makes of it ---------------------------------------------------------------------------------


def _calls(path: str) -> dict[str, Callable[[], Any]]:
    def opened() -> txlog.Table:
        return txlog.Table.open(path)

    rows = pa.table({"id": [1], "name": ["b"], "day": ["z"]})
    return {
        "open": opened,
        "exists": lambda: txlog.Table.exists(path),
        "verify": lambda: verify_table(open_store(path)),
        "history": lambda: opened().history(),
        "report": lambda: opened().report(orphans=True),
        "snapshot facts": lambda: _facts(opened().snapshot()),
        "files": lambda: opened().snapshot().files(),
        "files where": lambda: opened().snapshot().files("id > 5 and day <> 'q'"),
        "rows": lambda: opened().snapshot().to_arrow(),
        "rows where": lambda: opened().snapshot().to_arrow(["name"], "id >= 1"),
        "older version": lambda: opened().snapshot(2).to_arrow(),
        "time travel": lambda: opened().snapshot(timestamp="2030-01-01"),
        "resolve": lambda: opened().resolve("00000000-0000-0000-0000-000000000000", 3),
        "append": lambda: opened().append(rows, app_id="app", checkpoint_id=9),
        "replay": lambda: opened().append(rows, app_id="app", checkpoint_id=1),
        "checkpoint": lambda: opened().create_checkpoint(),
        "read again": lambda: opened().snapshot().to_arrow(),
    }


def _facts(snapshot: txlog.Snapshot) -> None:
    for name in ("timestamp", "schema", "partition_columns", "properties", "protocol", "num_files", "size_bytes"):
        getattr(snapshot, name)


def escapes(table: Path) -> list[tuple[str, BaseException]]:
    """Run every public call on the table; returns everything that escapes as anything but a TxlogError, with the call's
    name."""
    found: list[tuple[str, BaseException]] = []
    for name, call in _calls(str(table)).items():
        try:
            call()
        except TxlogError:
            pass
        except Exception as error:
            found.append((name, error))
    return found


def main(root: str, journal: str, seed: int, count: int) -> None:
    """In the child: damage ``count`` logs, beginning at ``seed``. Escapes are printed as JSON, one line each, and last
    of all how long the slowest log took, in seconds.
    """
    tables = {shape: Path(root) / shape for shape in SHAPES}
    slowest_s = 0.0
    for number in range(seed, seed + count):
        rng = random.Random(number)
        shape = rng.choice(SHAPES)
        table = shutil.copytree(tables[shape], Path(root) / "damaged")
        done = [mutate(table, rng) for _ in range(rng.randint(1, 3))]
        Path(journal).write_text(f"{number}, {shape}: {done}")
        began_s = time.monotonic()
        for call, error in escapes(table):
            what = f"{call}: {type(error).__name__}: {error}"
            print(json.dumps({"seed": number, "shape": shape, "done": str(done), "escaped": what}), flush=True)
        slowest_s = max(slowest_s, time.monotonic() - began_s)
        shutil.rmtree(table)
    print(slowest_s)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
