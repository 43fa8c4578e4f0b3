"""Files of `--out DIR`: tables, pictures and agreements, each written atomically."""

import csv
import errno
import io
import os
import secrets
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from copriv.agreement import Agreement
from copriv.cli.console import log
from copriv.display.forecast import hardly_changes
from copriv.errors import CoprivError
from copriv.forecast import Forecast
from copriv.formatting.sanitize import cell, reason
from copriv.simulation import NOT_FOR_RELEASE, Simulation


def series_csv(simulation: Simulation) -> str:
    """CSV of a simulation: k, p25, median, p75 and mean of each recorded iteration, in full precision, and whether it may be
    released."""
    columns = simulation.to_frame("series", backend="pyarrow").to_pydict()
    return csv_text({**columns, "release": [NOT_FOR_RELEASE] * len(columns["k"])})


def forecast_csv(outlook: Forecast) -> str:
    """Both curves, and then for each owner and model what it costs on its own records, with the verdict on the goal's."""
    curves = outlook.to_frame("curves", backend="pyarrow").to_pydict()
    names = (*curves, "owner", "verdict", "probability", "goal")
    rows = [(*row, "", "", "", "") for row in zip(*curves.values(), strict=True)]
    for owner in outlook.owners:
        own = owner.own
        for model, median, (low, high) in (
            ("alone", own.alone, own.alone_band),
            ("public, personalized", own.public_personalized, own.public_personalized_band),
            ("common", own.together, own.together_band),
            ("personalized", own.personalized, own.personalized_band),
        ):
            of_owner = cell(owner.called), owner.verdict, owner.probability, outlook.goal
            rows.append((model, "", "", median, low, high, *of_owner))
    return csv_text(dict(zip(names, zip(*rows, strict=True), strict=True)))


def csv_text(columns: Mapping[str, Sequence[Any]]) -> str:
    """Columns as the text of a CSV file, in full precision."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    return text.getvalue()


def replace_file(path: Path, content: bytes, mode: int = 0o666) -> Path:
    """Write a file atomically: under a temporary name first, which is then renamed to `path`.

    Raises OSError where it cannot be written, and for a device or a pipe: renaming would put a file in its place.
    """
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise OSError(errno.EINVAL, "a device or a pipe, and no file", str(path))
    # An unpredictable name of a new file: an existing one may belong to another account, or be open in another process.
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        with open(draft, "xb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
            file.write(content)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
    return path


def replace_own_file(path: Path, content: bytes) -> Path:
    """As `replace_file`, for content made from private records, which only this account may read at any time."""
    return replace_file(path, content, mode=0o600)


def save(directory: Path, files: dict[str, bytes], write: Callable[[Path, bytes], Path] = replace_file) -> list[Path]:
    """Write files into a directory, which is made if missing; each file is written atomically.

    All contents are computed before the first file is written. Raises CoprivError where the directory cannot be written.
    """
    paths = []
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            paths.append(write(directory / name, content))
    except OSError as error:
        raise CoprivError(f"{directory}: cannot write here ({reason(error)}); choose another directory") from None
    return paths


def keep(
    directory: Path | None, files: Callable[[], dict[str, bytes]], write: Callable[[Path, bytes], Path] = replace_file
) -> None:
    """Make and write the files of `--out DIR` if a directory is given, and log the path of each."""
    if directory is not None:
        for path in save(directory, files(), write):
            log(f"wrote {path}")


def simulation_files(simulation: Simulation, document: str, made_by: str) -> dict[str, bytes]:
    """The three files of a simulation; `document` is its JSON, `made_by` the command that the picture names."""
    # matplotlib takes half a second to import.
    from copriv.pictures.simulation import psi_against_k
    from copriv.pictures.style import png

    return {
        "simulation.json": document.encode() + b"\n",
        "simulation.csv": series_csv(simulation).encode(),
        "simulation.png": png(psi_against_k(simulation), made_by),
    }


def forecast_files(outlook: Forecast, document: str, made_by: str, best: Agreement | None = None) -> dict[str, bytes]:
    """The files of a forecast; `document` is its JSON, `made_by` the command that the pictures name.

    best: the agreement that is recommended, where it is another than the forecast's, such as one with a pilot before it.
    Where one owner is left, which has nobody to train with, there is the JSON alone.
    """
    if outlook.nobody_else:
        return {"forecast.json": document.encode() + b"\n"}
    from copriv.pictures.forecast import break_even, by_heterogeneity, curves, on_own_records
    from copriv.pictures.style import png

    unlike = {}
    if not hardly_changes(outlook.at_heterogeneity):
        unlike["unlike-owners.png"] = png(by_heterogeneity(outlook), made_by)
    return {
        "forecast.json": document.encode() + b"\n",
        "forecast.csv": forecast_csv(outlook).encode(),
        "forecast-curve.png": png(curves(outlook), made_by),
        "break-even.png": png(break_even(outlook), made_by),
        "own-records.png": png(on_own_records(outlook), made_by),
        "agreed.toml": outlook.agreed.agreement.to_toml().encode(),
        "recommended.toml": (best or outlook.recommended.agreement).to_toml().encode(),
        **unlike,
    }
