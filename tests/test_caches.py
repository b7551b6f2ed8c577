"""Where the tests keep what takes long to fetch or to build, in any home."""

from __future__ import annotations

import os
from pathlib import Path

import go_servers
import pytest
from caches import CHECKOUT, cache_folder


@pytest.fixture
def home_that_takes_no_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("TXLOG_CACHE", raising=False)
    home = tmp_path / "home"
    home.touch()  # nobody, not even root, can make a folder in it
    monkeypatch.setenv("HOME", str(home))
    return home


def test_caches_are_kept_below_the_home_or_where_the_environment_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TXLOG_CACHE", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert cache_folder("ivy") == tmp_path / "home" / ".cache" / "txlog" / "ivy"
    monkeypatch.setenv("TXLOG_CACHE", str(tmp_path / "elsewhere"))
    assert cache_folder("ivy") == tmp_path / "elsewhere" / "ivy"


def test_caches_are_kept_in_the_checkout_where_the_home_takes_no_files(
    home_that_takes_no_files: Path,
) -> None:
    folder = cache_folder("ivy")
    assert folder == CHECKOUT / "build" / "cache" / "ivy"
    assert os.access(folder, os.W_OK)


def test_go_keeps_its_packages_with_the_other_caches_if_the_home_is_not_writable(
    home_that_takes_no_files: Path,
) -> None:
    folders = go_servers._folders_of_go()
    assert folders.keys() == {"GOPATH", "GOCACHE"}
    assert all(Path(folder).is_relative_to(CHECKOUT) and os.access(folder, os.W_OK) for folder in folders.values())


def test_go_is_left_alone_where_the_home_takes_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert go_servers._folders_of_go() == {}
