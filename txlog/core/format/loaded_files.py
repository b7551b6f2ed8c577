"""Which files `Table.copy_into` has loaded into a table: domains of its metadata, so that a load and its files are one
commit, and no retention forgets them.

In: the table's domains, and locations of files. Out: whether a file was loaded, and the domains that note more. A file
is noted by 96 bits of a digest of its location: 16 characters. A domain holds at most `SEGMENT_FILES` files; only the
last one grows, so a commit rewrites at most one, and loads that run at once conflict there. Pure. PROTOCOL.md, "Domain
Metadata".
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Iterator, Mapping, Set

import orjson

from txlog.core.format.actions import DomainMetadata
from txlog.core.format.paths import canonical_path
from txlog.errors import CorruptLogError

FEATURE = "domainMetadata"
"""The table feature that domains need."""

SEGMENT_FILES = 8192

_PREFIX = "txlog.copyInto."
_WIDTH = 16


def is_of_loaded_files(domain: str) -> bool:
    """Whether a domain notes loaded files."""
    return domain.startswith(_PREFIX)


class LoadedFiles:
    """The files that a version of a table notes as loaded. Raises CorruptLogError for a domain that is not one."""

    def __init__(self, domains: Mapping[str, DomainMetadata]) -> None:
        self._segments: list[str] = []
        while (found := domains.get(f"{_PREFIX}{len(self._segments)}")) is not None:
            self._segments.append(_text_of(found))
        self._known = {each for text in self._segments for each in _digests(text)}

    def __contains__(self, uri_text: str) -> bool:
        """Whether a file was loaded, by its location as a log would write it."""
        return _digest(uri_text) in self._known

    def __len__(self) -> int:
        return len(self._known)

    @property
    def digests(self) -> Set[str]:
        """What notes each file."""
        return self._known

    @property
    def domains(self) -> list[str]:
        """The domains that answers depend on: those there are, and the next one."""
        return [f"{_PREFIX}{number}" for number in range(len(self._segments) + 1)]

    def noting(self, uri_texts: Iterable[str]) -> Iterator[DomainMetadata]:
        """The domains after these files were loaded too."""
        return self._noting(map(_digest, uri_texts))

    def noting_all(self, others: LoadedFiles) -> Iterator[DomainMetadata]:
        """The domains after the files were loaded, too, that ``others`` note."""
        return self._noting(digest for text in others._segments for digest in _digests(text))

    def _noting(self, digests: Iterable[str]) -> Iterator[DomainMetadata]:
        new = [digest for digest in dict.fromkeys(digests) if digest not in self._known]
        number = max(0, len(self._segments) - 1)
        text = self._segments[number] if self._segments else ""
        while new:
            room = SEGMENT_FILES - len(text) // _WIDTH
            taken, new = new[:room], new[room:]
            if taken:
                text += "".join(taken)
                yield DomainMetadata(f"{_PREFIX}{number}", orjson.dumps({"files": text}).decode(), removed=False)
            number, text = number + 1, ""


def digests_of(domain: DomainMetadata) -> set[str]:
    """What notes each file in one domain. Raises CorruptLogError for a domain that is not one."""
    return {*_digests(_text_of(domain))}


def _digest(uri_text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(canonical_path(uri_text).encode()).digest()[:12]).decode()


def _digests(text: str) -> Iterator[str]:
    return (text[at : at + _WIDTH] for at in range(0, len(text), _WIDTH))


def _text_of(domain: DomainMetadata) -> str:
    try:
        text = orjson.loads(domain.configuration)["files"]
        if isinstance(text, str) and len(text) % _WIDTH == 0:
            return text
    except (ValueError, KeyError, TypeError):
        pass
    raise CorruptLogError(
        f"the metadata domain {domain.domain} does not list loaded files as txlog writes them: another program changed"
        " it. Restore the table to a version before that"
    )
