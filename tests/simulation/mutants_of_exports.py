"""Bugs in exports of Iceberg metadata that race, die or sleep, each put into txlog's own code on purpose.

In: pytest's ``MonkeyPatch``. Out: the bug, until the patch is undone; `EXPORT_MUTANTS` is part of ``mutants.MUTANTS``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson
import pytest

from txlog.iceberg import clean_up, exporter, metadata_folder
from txlog.iceberg.metadata.names import metadata_number
from txlog.iceberg.metadata_folder import MetadataFolder

__all__ = ["EXPORT_MUTANTS"]

Mutant = Callable[[pytest.MonkeyPatch], None]


def takes_any_file_of_its_number_for_its_own(patch: pytest.MonkeyPatch) -> None:
    """Another exporter was first, with an older version: no reader sees the newer one."""
    put = MetadataFolder._put
    patch.setattr(MetadataFolder, "_put", lambda self, name, body: put(self, name, body) or True)


def overwrites_the_metadata_of_another_exporter(patch: pytest.MonkeyPatch) -> None:
    put = MetadataFolder._put

    def overwrite(self: Any, name: str, body: bytes) -> bool:
        if metadata_number(name) is None:
            return put(self, name, body)
        self.store.put(name, body)
        self.store.make_durable(name)
        return True

    patch.setattr(MetadataFolder, "_put", overwrite)


def puts_the_metadata_before_what_it_names(patch: pytest.MonkeyPatch) -> None:
    """An exporter that dies in between leaves readers with metadata that names files which are not there."""
    put_content, publish = MetadataFolder.put_content, MetadataFolder.publish

    def keep(self: Any, files: Any) -> None:
        self.files = files

    def publish_first(self: Any, exported: Any, began: Any) -> bool:
        if not publish(self, exported, began):
            return False
        put_content(self, self.files)
        return True

    patch.setattr(MetadataFolder, "put_content", keep)
    patch.setattr(MetadataFolder, "publish", publish_first)


def goes_on_from_the_metadata_of_another_library(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(metadata_folder, "parsed", lambda body, path: orjson.loads(body))


def exports_what_a_power_cut_may_take(patch: pytest.MonkeyPatch) -> None:
    """The version gets other rows after the cut, and Iceberg readers have the old ones for good."""
    patch.setattr(exporter.IcebergExporter, "_make_durable", lambda self, state: None)


def rests_on_metadata_that_is_not_on_disk(patch: pytest.MonkeyPatch) -> None:
    """Another exporter died before its sync: what it put is called exported, and a power cut takes it."""
    patch.setattr(MetadataFolder, "make_durable", lambda self, file: None)


def rebuilds_an_older_version_than_readers_see(patch: pytest.MonkeyPatch) -> None:
    """The one that it read before another exporter was faster."""
    patch.setattr(MetadataFolder, "is_newer", lambda self, file, version: False)


def cleans_up_what_readers_have_just_opened(patch: pytest.MonkeyPatch) -> None:
    """A rebuild drops the snapshot that was current until then, and its files with it."""
    patch.setattr(clean_up, "_dropped_since", lambda *_: [])


EXPORT_MUTANTS: dict[str, tuple[Mutant, str]] = {
    mutant.__name__: (mutant, scenario)
    for mutant, scenario in (
        (takes_any_file_of_its_number_for_its_own, "exporters-and-appender"),
        (overwrites_the_metadata_of_another_exporter, "exporters-and-appender"),
        (puts_the_metadata_before_what_it_names, "two-exporters-that-die"),
        (goes_on_from_the_metadata_of_another_library, "exporter-and-foreign-iceberg-writer"),
        (exports_what_a_power_cut_may_take, "exporter-beside-others-that-sync-nothing"),
        (rests_on_metadata_that_is_not_on_disk, "exporters-power-cut"),
        (rebuilds_an_older_version_than_readers_see, "exporter-and-rebuild"),
        (cleans_up_what_readers_have_just_opened, "exporter-and-rebuild"),
    )
}
"""Each bug, and the scenario of ``explorer.actors.SCENARIOS`` whose exploration must find it."""
