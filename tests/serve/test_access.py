"""The file of tokens: what is read at the start, and again when it changes, also if somebody damages it."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from txlog.errors import AccessError, InvalidInputError
from txlog.serve.access import Access, new_grant


@pytest.fixture(autouse=True)
def looks_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("txlog.serve.access.LOOK_EVERY_S", 0)


def made(path: Path, name: str) -> tuple[str, bytes]:
    token, grant = new_grant(name, ("*",), ("append",))
    line = msgspec.json.encode(grant) + b"\n"
    path.write_bytes(line)
    return token, line


@pytest.mark.parametrize("damage", [b'{"name": "x"', b"\xff\xfe", b'{"name": 1}', b"[]"])
def test_a_damaged_file_of_tokens_changes_nothing_and_only_the_log_says_where(
    damage: bytes, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "tokens"
    token, line = made(path, "till")
    access = Access(path)
    path.write_bytes(line + damage + b"\n")
    for _ in range(3):
        access.check(token, "orders", "append")
        with pytest.raises(AccessError) as raised:
            access.check("guessed", "orders", "append")
        assert str(tmp_path) not in str(raised.value)
    assert caplog.text.count(f"{path}: the tokens stay as they were") == 1
    assert caplog.text.count("line 2 of the tokens is not a grant") == 1
    other, line = made(path, "mended")
    access.check(other, "orders", "append")
    assert not access.has(token, "orders", "append")
    path.write_bytes(damage)
    with pytest.raises(InvalidInputError, match="line 1 of the tokens is not a grant"):
        Access(path)


def test_a_file_of_tokens_that_goes_leaves_the_tokens_as_they_were(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "tokens"
    token, _ = made(path, "till")
    access = Access(path)
    path.unlink()
    access.check(token, "orders", "append")
    assert caplog.text.count("tokens cannot be read") == 1
    with pytest.raises(InvalidInputError, match="tokens cannot be read"):
        Access(path)
