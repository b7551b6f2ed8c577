"""Maintenance that keeps a table fast and small (compaction, purge, vacuum), restore, and named versions."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from txlog.core.maintenance._auto_compaction import AutoCompaction
    from txlog.core.maintenance._bins import DEAD_FRACTION_MAX
    from txlog.core.maintenance._drop_feature import drop_feature
    from txlog.core.maintenance._former_partitions import former_partition_columns
    from txlog.core.maintenance._last_vacuum import LAST_VACUUM, vacuumed_until_ms
    from txlog.core.maintenance._maintainer import Maintainer, MaintenanceOptions, watch
    from txlog.core.maintenance._named_versions import (
        NamedVersion,
        files_of_named,
        named_versions,
        snapshot_named,
        tag,
        unnamed_checkpoints,
        untag,
    )
    from txlog.core.maintenance._optimize import optimize, purge
    from txlog.core.maintenance._outdated_files import files_with_dropped_columns
    from txlog.core.maintenance._package_folders import FolderKeeper
    from txlog.core.maintenance._restore import RestoreOptions, restore
    from txlog.core.maintenance._tombstone_files import FindFiles, TombstoneUpkeep, tombstones_of
    from txlog.core.maintenance._vacuum import VacuumOptions, vacuum
    from txlog.core.maintenance._version_files import difference
else:
    from txlog.core.util import face

    __getattr__, __dir__ = face(
        __name__,
        """
        _auto_compaction: AutoCompaction
        _bins: DEAD_FRACTION_MAX
        _drop_feature: drop_feature
        _former_partitions: former_partition_columns
        _last_vacuum: LAST_VACUUM vacuumed_until_ms
        _maintainer: Maintainer MaintenanceOptions watch
        _named_versions: NamedVersion files_of_named named_versions snapshot_named tag
            unnamed_checkpoints untag
        _optimize: optimize purge
        _outdated_files: files_with_dropped_columns
        _package_folders: FolderKeeper
        _restore: RestoreOptions restore
        _tombstone_files: FindFiles TombstoneUpkeep tombstones_of
        _vacuum: VacuumOptions vacuum
        _version_files: difference
        """,
    )

__all__ = [
    "DEAD_FRACTION_MAX",
    "LAST_VACUUM",
    "AutoCompaction",
    "FindFiles",
    "FolderKeeper",
    "Maintainer",
    "MaintenanceOptions",
    "NamedVersion",
    "RestoreOptions",
    "TombstoneUpkeep",
    "VacuumOptions",
    "difference",
    "drop_feature",
    "files_of_named",
    "files_with_dropped_columns",
    "former_partition_columns",
    "named_versions",
    "optimize",
    "purge",
    "restore",
    "snapshot_named",
    "tag",
    "tombstones_of",
    "unnamed_checkpoints",
    "untag",
    "vacuum",
    "vacuumed_until_ms",
    "watch",
]
