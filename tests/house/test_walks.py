"""Three walks through the house are lines: a call goes up, from a room to one above it, at most twice on each."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("grimp")


def climbs(walk: str) -> list[list[str]]:
    """Pairs of rooms of which the first calls something in the second, which is above it."""
    command = [sys.executable, "-m", "house.walks", walk]
    found = subprocess.run(command, capture_output=True, text=True, check=True, cwd=Path(__file__).parents[1])
    pairs: list[list[str]] = json.loads(found.stdout)
    return pairs


@pytest.mark.parametrize("walk", [pytest.param("forecast", marks=pytest.mark.slow), "simulate", "answer"])
def test_a_walk_is_a_line(walk: str) -> None:
    assert len(climbs(walk)) <= 2


def test_a_climb_is_found() -> None:
    """What is said of a result is worded by a room above it, which the result names."""
    assert ["formatting", "display"] in climbs("shown")
