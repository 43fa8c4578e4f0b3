"""The site's navigation, made of what is there: a part is a folder of docs/, a page is a file of it, by its own title.

A page that somebody adds is in it without being named here.
"""

from pathlib import Path
from typing import Any

PARTS = {
    "Tutorial": ["tutorial", "notebooks"],
    "How to": ["how-to"],
    "Reference": ["reference"],
    "Explanation": ["explanation"],
    "Proofs": ["proofs"],
    "Papers": ["papers", "gallery.md"],
    "Decisions": ["decisions"],
}
"""Tab → folders and pages of docs/, in this order; folders that are not there are left out."""


def nav(docs: Path) -> list[dict[str, Any]]:
    """The navigation of all Markdown pages below a folder. Raises ValueError where a page has no part."""
    tabs: list[dict[str, Any]] = [{"copriv": "index.md"}]
    placed = {"index.md"}
    for title, places in PARTS.items():
        pages = [page for place in places for page in _pages(docs, place)]
        placed |= set(pages)
        if pages:
            tabs.append({title: pages if len(pages) > 1 else pages[0]})
    lost = {path.relative_to(docs).as_posix() for path in docs.rglob("*.md")} - placed
    if lost:
        raise ValueError(f"documentation/nav.py: no part has {', '.join(sorted(lost))}; add its folder to PARTS")
    return tabs


def _pages(docs: Path, place: str) -> list[str]:
    path = docs / place
    if path.is_file():
        return [place]
    found = [*path.rglob("*.md"), *(notebook.with_suffix(".md") for notebook in path.rglob("*.ipynb"))]
    # README or index first: it introduces the folder.
    pages = sorted(found, key=lambda page: (page.stem.lower() not in ("readme", "index"), page.as_posix()))
    return [page.relative_to(docs).as_posix() for page in pages]


def on_config(config: Any) -> Any:
    """MkDocs asks before it builds."""
    config["nav"] = nav(Path(config["docs_dir"]))
    return config
