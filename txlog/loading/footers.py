"""The footers of many Parquet files that other programs wrote, read by workers.

In: what reads one footer, and paths. Out: `FooterFacts` of each file. A conversion makes its table of them.
"""

from __future__ import annotations

from collections.abc import Sequence

from txlog.core.progress import OnDone
from txlog.core.store import ObjectMeta
from txlog.core.workers import Workers, shares
from txlog.loading.footer_facts import FooterFacts, ReadFooter, ReadFooters

_FILES_MAX = 200
"""How many footers one task reads at most."""


def footer_facts(
    read: ReadFooter,
    files: Sequence[str | ObjectMeta],
    workers: Workers,
    on_files: OnDone | None = None,
) -> dict[str, FooterFacts]:
    """The facts of all files, by path and in order. Raises what `ReadFooter` raises.

    A file with only a path is looked up. ``on_files`` is called with the number of files read so far, and the total.
    """
    named = [(file, None) if isinstance(file, str) else (file.name, file) for file in files]
    cut = shares(named, workers, _FILES_MAX)
    found: dict[str, FooterFacts] = {}
    for at, facts in workers.map(ReadFooters(read), cut):
        found.update(zip((path for path, _ in cut[at]), facts, strict=True))
        if on_files is not None:
            on_files(len(found), len(files))
    return {path: found[path] for path, _ in named}
