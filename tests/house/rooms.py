"""The rooms of the house and who uses whom, from the real imports; and the drawing of them.

A room is an entry of the linter's layers in pyproject.toml: a module or package, with all that is in it.
"""

import ast
import re
import tomllib
from functools import cache
from pathlib import Path

import grimp
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "copriv"
PAGE = ROOT / "docs" / "explanation" / "architecture.md"
BEGIN, END = "<!-- drawn by python -m tests.house: -->\n", "<!-- until here -->\n"

Uses = dict[str, set[str]]
"""Room → rooms that it imports."""


@cache
def layers() -> tuple[tuple[str, ...], ...]:
    """The linter's layers from the top, each with its rooms, without "copriv."."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    first = project["tool"]["importlinter"]["contracts"][0]["layers"]
    return tuple(tuple(room.strip().removeprefix("copriv.") for room in re.split("[|:]", line)) for line in first)


def room_of(module: str) -> str | None:
    """The room that a module is in; None for doors of the house, such as copriv itself."""
    name = module.removeprefix("copriv.")
    rooms = [room for layer in layers() for room in layer if name == room or name.startswith(f"{room}.")]
    return max(rooms, key=len, default=None)


@cache
def uses() -> Uses:
    """Which rooms import which, for use and not only for types."""
    graph = grimp.build_graph("copriv", cache_dir=None, exclude_type_checking_imports=True)
    found: Uses = {room: set() for layer in layers() for room in layer}
    for module in graph.modules:
        here = room_of(module)
        for other in graph.find_modules_directly_imported_by(module) if here else ():
            there = room_of(other)
            if here and there and there != here:
                found[here].add(there)
    return found


def reduced(uses: Uses) -> Uses:
    """Without arrows that a way over other rooms says already."""

    @cache
    def below(room: str) -> frozenset[str]:
        return frozenset(uses[room]).union(*(below(other) for other in uses[room]))

    return {
        room: {other for other in others if not any(other in below(between) for between in others - {other})}
        for room, others in uses.items()
    }


def circles(uses: Uses) -> list[list[str]]:
    """Groups of names that reach one another, each in order."""
    names = sorted(uses)
    arrows = [[other in uses[name] for other in names] for name in names]
    _, group = connected_components(csr_array(arrows), connection="strong")
    together = [[name for name, its in zip(names, group, strict=True) if its == g] for g in set(group)]
    return [found for found in together if len(found) > 1]


def says(name: str) -> str:
    """The first line of what a file of the package says of itself."""
    doc = ast.get_docstring(ast.parse((SOURCE / name).read_text(encoding="utf-8"))) or ""
    return " ".join(doc.split("\n\n")[0].split())


def drawing() -> str:
    """The house as Markdown: a Mermaid flow chart, and what each room says of itself."""
    arrows = reduced(uses())
    order = [room for layer in layers() for room in layer]
    lines = ["```mermaid", "flowchart TB"]
    for room in order:
        shape = '["{}"]' if _is_package(room) else '("{}")'
        lines.append(f"    {_id(room)}{shape.format(room)}")
    for room in order:
        lines += [f"    {_id(room)} --> {_id(other)}" for other in sorted(arrows[room], key=order.index)]
    lines += ["```", "", "| room | what it is |", "| --- | --- |"]
    for room in order:
        path = room.replace(".", "/")
        lines.append(f"| `{room}` | {says(f'{path}/__init__.py' if _is_package(room) else f'{path}.py')} |")
    return "\n".join(lines) + "\n"


def drawn(page: str) -> str:
    """The page with the drawing as it is now."""
    before, rest = page.split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}\n{drawing()}\n{END}{after}"


def lengths() -> dict[str, int]:
    """Lines of every file of the package, the longest first."""
    found = {str(p.relative_to(SOURCE)): len(p.read_text(encoding="utf-8").splitlines()) for p in SOURCE.rglob("*.py")}
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def _is_package(room: str) -> bool:
    return (SOURCE / room.replace(".", "/")).is_dir()


def _id(room: str) -> str:
    return room.replace(".", "_") + "_"  # a name such as "end" would be a word of Mermaid
