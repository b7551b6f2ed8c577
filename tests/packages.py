"""Packages as pip would install them, for tests of the points where packages plug in.

A package is a folder on ``sys.path`` with modules and the metadata that `importlib.metadata` reads.
"""

from __future__ import annotations

import importlib.metadata
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from txlog.core import points

__all__ = ["hide", "install", "spoil"]


def install(
    monkeypatch: pytest.MonkeyPatch,
    folder: Path,
    name: str,
    entry_points: Mapping[str, Mapping[str, str]],
    modules: Mapping[str, str] | None = None,
) -> None:
    """Put a package on ``sys.path`` until the test ends.

    Args:
        monkeypatch: The test's.
        folder: Where the package's files go.
        name: The name of the distribution.
        entry_points: By group and name, ``module:attribute``.
        modules: The text of each module.
    """
    place = folder / name
    info = place / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    groups = (
        f"[{group}]\n" + "".join(f"{key} = {to}\n" for key, to in own.items()) for group, own in entry_points.items()
    )
    (info / "entry_points.txt").write_text("\n".join(groups))
    for module, text in (modules or {}).items():
        (place / f"{module}.py").write_text(text)
        monkeypatch.delitem(sys.modules, module, raising=False)  # gone again after the test
    monkeypatch.syspath_prepend(str(place))
    _read_again(monkeypatch)


def hide(monkeypatch: pytest.MonkeyPatch, *hidden: str) -> None:
    """Until the test ends, no installed package has these entry points, each written ``group:name``."""
    read = importlib.metadata.entry_points  # not `Distribution`, of which importlib_metadata has another once imported

    def left() -> importlib.metadata.EntryPoints:
        installed = read()
        entries = (each for group in installed.groups for each in installed.select(group=group))
        return importlib.metadata.EntryPoints([each for each in entries if f"{each.group}:{each.name}" not in hidden])

    monkeypatch.setattr(importlib.metadata, "entry_points", left)
    _read_again(monkeypatch)


def spoil(monkeypatch: pytest.MonkeyPatch, module: str) -> None:
    """Until the test ends, this module of an installed package cannot be imported."""
    monkeypatch.setitem(sys.modules, module, None)
    _read_again(monkeypatch)


def _read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    points.forget()
    monkeypatch.setattr(points, "_offers", None)  # and again once the test is over
