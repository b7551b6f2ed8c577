"""Offers of one machine's writers as files: of two that reach for one, one gets it, and nothing stale is taken."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from txlog.core.store import _handover_folder as hand_over
from txlog.core.store._handover_folder import HandOver, OfferState


@pytest.fixture
def place(tmp_path: Path) -> HandOver:
    return HandOver(str(tmp_path / "offers"))


def test_an_offer_is_found_with_its_bytes_until_it_is_taken(place: HandOver) -> None:
    offer = place.offer("one", b"bytes")
    assert offer is not None
    assert place.waiting() == [("one", b"bytes")]
    assert offer.state() == OfferState("offer")
    assert place.take("one", 7)
    assert place.waiting() == []
    assert offer.state() == OfferState("taken", 7)


def test_only_one_of_two_takes_an_offer(place: HandOver) -> None:
    place.offer("one", b"")
    assert [place.take("one", 7), place.take("one", 7)] == [True, False]


def test_an_owner_learns_that_its_offer_landed_and_the_offer_is_removed(place: HandOver) -> None:
    offer = place.offer("one", b"")
    assert offer is not None
    place.take("one", 7)
    place.landed("one", 7)
    assert offer.state() == OfferState("done", 7)
    assert offer.end() == OfferState("done", 7)
    assert offer.state() == OfferState("none")


def test_an_offer_that_is_given_back_can_be_taken_again_and_one_that_is_sent_back_cannot(place: HandOver) -> None:
    for name in ("given", "sent"):
        place.offer(name, b"")
        place.take(name, 7)
    place.give_back("given", 7)
    place.send_back("sent", 7)
    assert [name for name, _ in place.waiting()] == ["given"]


def test_an_owner_that_leaves_knows_the_version_and_the_taker_notices(place: HandOver) -> None:
    offer = place.offer("one", b"")
    assert offer is not None
    assert place.take("one", 7)
    assert place.take("one", 8, 7), "it goes on with the next version"
    assert offer.end() == OfferState("taken", 8)
    assert not place.take("one", 9, 8)


def test_an_owner_withdraws_what_nobody_has_taken(place: HandOver) -> None:
    offer = place.offer("one", b"")
    assert offer is not None
    assert offer.end() == OfferState("offer")
    assert not place.take("one", 7)


def test_an_offer_of_a_suspended_owner_is_not_taken_until_it_resumes(
    place: HandOver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hand_over, "TOUCH_S", 0.0)
    offer = place.offer("one", b"")
    assert offer is not None
    os.utime(tmp_path / "offers" / "one.offer", (0, os.stat(tmp_path).st_mtime - 60))
    assert place.waiting() == []
    offer.state()
    assert [name for name, _ in place.waiting()] == ["one"]


def test_what_the_dead_left_long_ago_is_deleted(place: HandOver, tmp_path: Path) -> None:
    for name in ("waits", "taken", "done"):
        place.offer(name, b"")
    place.take("taken", 7)
    place.take("done", 7)
    place.landed("done", 7)
    for entry in (tmp_path / "offers").iterdir():
        os.utime(entry, (0, 1_000_000))
    place.waiting()
    assert [*(tmp_path / "offers").iterdir()] == []


def test_no_room_and_too_much_to_offer_are_no_offer(place: HandOver, tmp_path: Path) -> None:
    assert place.offer("large", b"x" * (2 << 20)) is None
    (tmp_path / "file").write_bytes(b"")
    assert HandOver(str(tmp_path / "file")).offer("one", b"") is None
    assert place.waiting() == []
