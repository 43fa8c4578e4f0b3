"""The drawing of the house is of the house as it is, and every room and file says what it is."""

import re

import pytest

from house import rooms

grimp = pytest.importorskip("grimp")


def test_the_drawing_is_not_stale() -> None:
    page = rooms.PAGE.read_text(encoding="utf-8")
    assert page == rooms.drawn(page), "architecture.md: run `python -m tests.house` and look at what it drew"


def test_every_file_is_in_a_room_or_is_a_door() -> None:
    outside = {
        name
        for name in rooms.lengths()
        if rooms.room_of("copriv." + name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")) is None
    }
    assert outside == {"__init__.py", "__main__.py"}, "name its room in the layers of pyproject.toml"


def test_no_arrow_goes_up() -> None:
    height = {room: i for i, layer in enumerate(rooms.layers()) for room in layer}
    assert all(height[here] < height[there] for here, others in rooms.uses().items() for there in others)


def test_no_circle_of_files() -> None:
    """Imports inside functions and imports for types count too."""
    graph = grimp.build_graph("copriv", cache_dir=None)
    assert rooms.circles({name: graph.find_modules_directly_imported_by(name) for name in graph.modules}) == []


def test_a_circle_is_found() -> None:
    assert rooms.circles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a"}}) == [["b", "c"]]


def test_arrows_left_out_are_said_by_others() -> None:
    chain = {"a": {"b", "c", "d"}, "b": {"c"}, "c": set(), "d": {"c"}}
    assert rooms.reduced(chain) == {"a": {"b", "d"}, "b": {"c"}, "c": set(), "d": {"c"}}


def test_every_file_says_in_its_first_line_what_it_is() -> None:
    silent = [name for name in rooms.lengths() if not rooms.says(name)]
    assert silent == []


def test_every_file_that_the_page_names_is_there() -> None:
    page = rooms.PAGE.read_text(encoding="utf-8")
    named = {name for name in re.findall(r"`([\w./]+/\w+\.(?:py|md))`", page) if "NAME" not in name}
    assert len(named) > 12
    here = (rooms.SOURCE, rooms.ROOT)
    assert [name for name in sorted(named) if not any((root / name).exists() for root in here)] == []


KINDS = {"rule", "mechanism", "loss", "data set", "figure", "command"}


def test_the_page_says_how_to_add_each_kind_of_thing() -> None:
    page = rooms.PAGE.read_text(encoding="utf-8")
    table = page.split("| to add a | write |")[1].split("\n\n")[0]
    rows = dict(re.findall(r"^\| ([\w ]+?) \| (.*)\|$", table, flags=re.MULTILINE))
    assert set(rows) == KINDS
    assert all("`tests/" in row for row in rows.values())
