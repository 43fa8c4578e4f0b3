"""A ledger that is whole is said to be, one that was touched is not, and what is no ledger is refused in words."""

import pytest

from copriv.errors import InvalidInput
from copriv.ui.gallery import Gallery, transient
from copriv.ui.reading import opened


def test_a_whole_ledger(ledger):
    found = opened(ledger)
    assert (found["kind"], found["problem"], found["owner"]) == ("ledger", "", "<b>bank</b>")
    assert (found["lifetime"], found["spent"]) == (2.0, 0.75)
    assert [run["answers"] for run in found["runs"]] == [3]
    assert [line["kind"] for line in found["lines"]].count("charge") == 3
    assert not any("content" in line for line in found["lines"])


def test_a_ledger_that_was_touched(ledger):
    lines = ledger.split(b"\n")
    without = b"\n".join(lines[:3] + lines[4:])
    assert opened(without)["problem"]


NOTHING = [b"", b"\x00" * 100, b"{}", b'{"record": {"owners": 3}}', b"SQLite format 3\x00" * 9, b"a,b\n1,2\n"]


@pytest.mark.parametrize("content", [*NOTHING, b"[" * 100_000, b'{"a":' * 50_000])
def test_what_is_no_ledger_is_refused_in_words(content):
    with pytest.raises(InvalidInput, match=r"no ledger|no run"):
        opened(content)


def test_a_model_file_shows_its_run():
    content = b'{"record": {"run": "abc", "status": "finished", "owners": [{"name": "a", "answers": 2, "spent": 1.0}]}}'
    assert opened(content)["runs"][0]["name"] == "a"


def test_the_gallery_shows_every_figure_and_only_pictures_of_figures():
    gallery = Gallery()
    assert len(gallery.figures()["figures"]) == 21
    assert all(figure["claim"] for figure in gallery.figures()["figures"])
    assert gallery.picture("sync-fig2").name == "sync-fig2.png"
    assert gallery.picture("../../../README") is None


@pytest.mark.parametrize("epsilon", [0, -1, None, "1", True, float("nan"), 1e99])
def test_a_transient_of_no_epsilon_is_refused(epsilon):
    with pytest.raises(InvalidInput):
        transient("sync-fig2", epsilon)
