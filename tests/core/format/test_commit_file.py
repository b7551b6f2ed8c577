from __future__ import annotations

import json
import pickle
import random

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from txlog.core.format.actions import AddDecoder, AddFile, Protocol, SetTransaction, action_from_json
from txlog.core.format.commit_file import LogLimits, parse_commit
from txlog.errors import CorruptLogError

ADD = {"add": {"path": "a", "partitionValues": {}, "size": 1, "modificationTime": 2, "dataChange": True}}
TXN = {"txn": {"appId": "x", "version": 3}}
PROTOCOL = {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}


def info(actions: int) -> dict[str, object]:
    return {"commitInfo": {"txnId": "t", "operation": "WRITE", "txlog": {"actions": actions}}}


def body(*lines: object) -> bytes:
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def test_actions_come_in_file_order_and_commit_info_is_separate() -> None:
    commit = parse_commit(body(info(4), PROTOCOL, ADD, TXN), 5)
    assert [type(action) for action in commit.actions] == [Protocol, AddFile, SetTransaction]
    assert (commit.version, commit.txn_id, commit.operation) == (5, "t", "WRITE")


def test_without_files_the_other_actions_still_come_and_lines_still_count() -> None:
    data = body(info(4), ADD, TXN, ADD)
    commit = parse_commit(data, 5, files=False)
    assert [type(action) for action in commit.actions] == [SetTransaction, AddFile]
    assert commit.files_skipped
    assert commit.size_bytes == len(data)


def test_without_files_an_action_after_a_null_file_action_still_comes() -> None:
    first = {"add": None, "remove": None, "cdc": None, **TXN}
    commit = parse_commit(body(info(3), first, ADD), 5, files=False)
    assert [type(action) for action in commit.actions] == [SetTransaction, AddFile]


def test_the_last_line_needs_no_newline_and_blank_lines_are_no_actions() -> None:
    commit = parse_commit(b"\n" + body(info(2), TXN).rstrip(b"\n"), 5)
    assert len(commit.actions) == 1


def test_unknown_actions_and_fields_are_ignored_but_counted() -> None:
    commit = parse_commit(body(info(3), {"shiny": {"new": 1}}, TXN), 5)
    assert len(commit.actions) == 1


@pytest.mark.parametrize("data", [b"", b"\n", b" \n\n"])
def test_an_empty_commit_is_corrupt(data: bytes) -> None:
    with pytest.raises(CorruptLogError, match="empty") as caught:
        parse_commit(data, 7, name=f"{7:020}.json", table="t")
    assert caught.value.path == "00000000000000000007.json"
    assert (caught.value.version, caught.value.table) == (7, "t")


@pytest.mark.parametrize("files", [True, False])
def test_a_commit_cut_anywhere_is_never_taken_for_a_shorter_one(files: bool) -> None:
    whole = body(info(4), PROTOCOL, ADD, ADD)
    for length in range(len(whole) - 1):  # without its last newline the commit is still whole
        with pytest.raises(CorruptLogError):
            parse_commit(whole[:length], 7, files=files)


@pytest.mark.parametrize("files", [True, False])
def test_a_foreign_commit_cut_inside_a_line_is_torn(files: bool) -> None:
    whole = body(PROTOCOL, ADD)
    with pytest.raises(CorruptLogError, match="torn") as caught:
        parse_commit(whole[:-5], 7, files=files)
    assert caught.value.line == 2


@pytest.mark.parametrize("files", [True, False])
def test_a_tail_of_zeros_after_a_power_cut_is_torn(files: bool) -> None:
    whole = body(PROTOCOL, ADD)
    with pytest.raises(CorruptLogError, match="torn"):
        parse_commit(whole[:-20] + bytes(20), 7, files=files)


@pytest.mark.parametrize(
    ("data", "reported"),
    [
        (bytes(40), "is 40 zero bytes"),
        (b'{"add":{"pa', "is cut off after 11 bytes"),
        (b'{"add":{"pa\0\0\0', "is cut off after 11 bytes, zeros follow"),
        (b'{"add":{"pa\n', "is not JSON"),
        (b"garbage", "is not JSON"),
        (b"PAR1\x15\x04", "is not JSON"),
    ],
    ids=["zeros", "cut off", "cut off and zeros", "a whole bad line", "text", "another file"],
)
def test_the_error_for_a_line_that_does_not_parse_says_why(data: bytes, reported: str) -> None:
    with pytest.raises(CorruptLogError, match=reported):
        parse_commit(data, 7)


def test_too_many_lines_are_refused_like_too_few() -> None:
    with pytest.raises(CorruptLogError, match="declares 2 lines and has 3"):
        parse_commit(body(info(2), ADD, ADD), 7)


@pytest.mark.parametrize(
    "line",
    [
        {"add": {**ADD["add"], "size": "one"}},
        {"add": {**ADD["add"], "size": 2**64}},
        {"add": {**ADD["add"], "dataChange": 1}},
        {"add": {"path": "a"}},
        {"add": []},
        {**ADD, **TXN},
        [1],
    ],
)
def test_a_malformed_action_names_its_line(line: object) -> None:
    with pytest.raises(CorruptLogError) as caught:
        parse_commit(body(PROTOCOL, line, TXN), 7)
    assert caught.value.line == 2
    assert pickle.loads(pickle.dumps(caught.value)).line == 2


@pytest.mark.parametrize("limits", [LogLimits(commit_bytes=50), LogLimits(line_bytes=50), LogLimits(actions=1)])
def test_a_file_beyond_the_limits_is_refused(limits: LogLimits) -> None:
    with pytest.raises(CorruptLogError, match="limit"):
        parse_commit(body(ADD, TXN, TXN), 7, limits=limits)


def test_deep_nesting_is_an_error_of_ours() -> None:
    with pytest.raises(CorruptLogError):
        parse_commit(b'{"a":' * 5000 + b"1" + b"}" * 5000, 7)


# --- many lines -----------------------------------------------------------------------------------------------------

_USUAL = orjson.dumps(
    {"add": {"path": "p", "partitionValues": {}, "size": 1, "modificationTime": 1, "dataChange": True}}
)
_ALL = orjson.dumps(
    {
        "add": {
            "path": "p%20q",
            "partitionValues": {"a": None, "b": "x"},
            "size": 1,
            "modificationTime": -1,
            "dataChange": False,
            "stats": '{"numRecords":1}',
            "tags": {"a": "b"},
            "deletionVector": {
                "storageType": "u",
                "pathOrInlineDv": "x",
                "offset": 1,
                "sizeInBytes": 3,
                "cardinality": 2,
                "maxRowIndex": 5,
            },
            "baseRowId": 3,
            "defaultRowCommitVersion": 4,
            "clusteringProvider": "z",
        }
    }
)
_TOKENS = [
    *(b"null true 1 -1 1.0 1e2 01 -0 1E400 NaN 9223372036854775808 9223372036854775807 2147483648".split()),
    *(b'"x" {} [] {"a":null} {"a":1} \\u0000 \\ud800 \\/ \\x "path":"r", "zz":1, "extra":{}, "zz":null, /**/'.split()),
    *(b'"(unknown fields)":{"x":1}, "add":null, "txn":null, "txn":{"appId":"a","version":1},'.split()),
    *(b" ", b"\t", b",", b"\xff", b"\x00", b"\xef\xbb\xbf", b"\xc0\x80", b"\r"),
]


def _changed(chance: random.Random) -> bytes:
    line = bytearray(chance.choice((_USUAL, _ALL)))
    for _ in range(chance.choice((1, 1, 2, 3))):
        at, how = chance.randrange(len(line)), chance.random()
        if how < 0.2:
            line[at] = chance.randrange(256)
        elif how < 0.4:
            del line[at : at + chance.randrange(1, 9)]
        else:
            line[at : at + chance.choice((0, 0, 1, 2, 4))] = chance.choice(_TOKENS)
        line = line or bytearray(b"x")
    return bytes(line)


@given(st.integers(0, 1 << 32))
def test_the_decoder_of_usual_lines_takes_only_what_all_others_are_read_as_too(seed: int) -> None:
    decoded = AddDecoder(1 << 20).one
    for line in [_USUAL, _ALL, *(_changed(random.Random(seed + at)) for at in range(80))]:
        found = decoded(line)
        if found is not None:
            assert found == action_from_json(orjson.loads(line)), line
            assert found.extra == {}
    assert AddDecoder(1 << 20).one(_ALL) is not None


@given(st.integers(0, 1 << 32))
def test_lines_that_are_decoded_at_once_are_what_each_is_read_as(seed: int) -> None:
    """Also where a change splits a line, joins two, or puts two actions into one."""
    for at in range(40):
        chance = random.Random(seed + at)
        lines = [_USUAL, _ALL, _changed(chance), chance.choice((_USUAL + _ALL, _USUAL + b" " + _ALL, _ALL)), _USUAL]
        chance.shuffle(lines)
        body = b"\n".join(lines)
        if chance.random() < 0.5:
            cut = chance.randrange(len(body))
            body = body[:cut] + b"\n" + body[cut:]
        lines = body.split(b"\n")
        found = AddDecoder(1 << 20).run(lines, 0)
        assert found == [action_from_json(orjson.loads(line)) for line in lines[: len(found)]], body
    assert len(AddDecoder(1 << 20).run([_USUAL, _ALL, b""], 0)) == 2
    assert AddDecoder(len(_ALL) - 1).run([_USUAL, _ALL, b""], 0) == []


def test_lines_of_a_large_commit_keep_their_unknown_fields_and_name_their_wrong_ones() -> None:
    lines = [_USUAL, _ALL] * 300
    lines[7] = _USUAL.replace(b'"size":1', b'"size":1,"future":{"x":1}')
    lines[9] = _USUAL.replace(b'"size":1', b'"size":"12"')
    actions = [each for each in parse_commit(b"\n".join(lines), 0).actions if isinstance(each, AddFile)]
    assert len(actions) == 600
    assert [action.extra for action in actions if action.extra] == [{"future": {"x": 1}}]
    assert actions[9].size == 12
    assert actions[1].deletion_vector is not None
    assert actions[1].deletion_vector.max_row_index == 5
    lines[500] = _USUAL.replace(b'"size":1', b'"size":-1')
    with pytest.raises(
        CorruptLogError, match=r"line 501 of v0: add.size must be an integer from 0 to 2\*\*63-1, not -1"
    ):
        parse_commit(b"\n".join(lines), 0)
