"""Draws the house into docs/explanation/architecture.md, and tells how long its files are: `python -m tests.house`."""

import statistics
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # as pytest does

from house import rooms

page = rooms.PAGE.read_text(encoding="utf-8")
rooms.PAGE.write_text(rooms.drawn(page), encoding="utf-8")
found = rooms.lengths()
print(f"{len(found)} files, {sum(found.values()):,} lines, median {statistics.median(found.values()):g}")
print("longest: " + ", ".join(f"{name} {lines}" for name, lines in list(found.items())[:10]))
arrows = {room: len(others) for room, others in rooms.uses().items()}
print(f"{len(arrows)} rooms, {sum(arrows.values())} pairs of rooms that import one another's modules")
