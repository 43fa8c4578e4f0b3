"""The notebooks: run them and keep their outputs (`python documentation/notebooks.py`); make pages of the site of them.

A notebook is a file of docs/notebooks, with the outputs of the run that `make notebooks` made. A cell whose output is
another one each time (real noise, names of runs, times) has the tag "varies": tests run it and do not compare.
"""

import sys
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).parents[1] / "docs" / "notebooks"
VARIES = "varies"
_PATIENCE = 300
"""Seconds for one cell."""


def executed(path: Path, folder: Path) -> Any:
    """The notebook, run in an empty kernel whose working folder is `folder`. Raises what a cell raises."""
    notebook = nbformat.read(path, as_version=4)
    resources = {"metadata": {"path": str(folder)}}
    NotebookClient(notebook, timeout=_PATIENCE, kernel_name="python3", resources=resources).execute()
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.metadata.pop("execution", None)  # times of the run
            cell.outputs = [one for one in cell.outputs if one.get("name") != "stderr"]
    return notebook


def results(notebook: Any) -> list[list[str]]:
    """What each code cell printed or gave, as text; pictures as the word for what they are."""
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    return [[_text(output) for output in cell.outputs] for cell in code if VARIES not in cell.metadata.get("tags", [])]


def page(notebook: Any) -> str:
    """A notebook as a page of Markdown, with its pictures inside."""
    parts = []
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            parts.append(cell.source)
            continue
        parts.append(f"```python\n{cell.source}\n```")
        for output in cell.outputs:
            data = output.get("data", {})
            if "image/png" in data:
                parts.append(f"![What the lines above draw](data:image/png;base64,{data['image/png'].strip()})")
            else:
                parts.append(f"```text\n{_text(output).rstrip()}\n```")
    return "\n\n".join(parts) + "\n"


def _text(output: Any) -> str:
    data = output.get("data", {})
    return "picture" if "image/png" in data else str(data.get("text/plain", output.get("text", "")))


def on_files(files: Any, config: Any) -> Any:
    """MkDocs asks before it builds: each notebook becomes a page, and stays to be downloaded."""
    from mkdocs.structure.files import File

    for path in sorted(FOLDER.glob("*.ipynb")):
        opening = f"*This page is a notebook: [{path.name}]({path.name}).*\n\n"
        title, _, rest = page(nbformat.read(path, as_version=4)).partition("\n")
        content = f"{title}\n\n{opening}{rest}"
        files.append(File.generated(config, f"notebooks/{path.stem}.md", content=content))
    return files


def main() -> None:
    """Run every notebook, or those named, and keep what came of it."""
    import tempfile

    for path in [FOLDER / f"{name}.ipynb" for name in sys.argv[1:]] or sorted(FOLDER.glob("*.ipynb")):
        with tempfile.TemporaryDirectory() as folder:
            nbformat.write(executed(path, Path(folder)), path)
        print(path.name)


if __name__ == "__main__":
    main()
