"""What `--out DIR` leaves behind: tables, pictures and agreements, each file whole or not there at all."""

import csv
import errno
import io
import os
from collections.abc import Callable
from pathlib import Path

from copriv.errors import CoprivError
from copriv.forecast import Forecast
from copriv.formatting.sanitize import reason
from copriv.simulation import NOT_FOR_RELEASE, Simulation


def series_csv(simulation: Simulation) -> str:
    """k, p25, median, p75, mean: one line for each recorded iteration, every digit kept; and what kind of numbers it is."""
    ψ = simulation.relative_fitness
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["k", "p25", "median", "p75", "mean", "release"])
    columns = (ψ.quantile(0.25), ψ.median, ψ.quantile(0.75), ψ.mean)
    writer.writerows(
        [int(k), *map(float, values), NOT_FOR_RELEASE]
        for k, *values in zip(ψ.k, *(c.tolist() for c in columns), strict=True)
    )
    return text.getvalue()


def replace_file(path: Path, content: bytes) -> Path:
    """The whole content, under a name of its own first and then renamed over `path`.

    Raises OSError where it cannot be written, and for a device or a pipe: renaming would put a file in its place.
    """
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise OSError(errno.EINVAL, "a device or a pipe, and no file", str(path))
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        draft.write_bytes(content)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
    return path


def replace_own_file(path: Path, content: bytes) -> Path:
    """As `replace_file`, for what is made from private records: at no moment may anybody else read it."""
    before = os.umask(0o077)
    try:
        return replace_file(path, content)
    finally:
        os.umask(before)


def save(directory: Path, files: dict[str, bytes], write: Callable[[Path, bytes], Path] = replace_file) -> list[Path]:
    """Write files into a directory, made where it is missing; a reader never sees half a file.

    Everything was computed before the first file is touched. Raises CoprivError where the directory cannot be written.
    """
    paths = []
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            paths.append(write(directory / name, content))
    except OSError as error:
        raise CoprivError(f"{directory}: cannot write here ({reason(error)}); choose another directory") from None
    return paths


def simulation_files(simulation: Simulation, document: str, made_by: str, name: str = "simulation") -> dict[str, bytes]:
    """The three files of a simulation; `document` is its JSON, `made_by` the command that the picture names."""
    # matplotlib takes half a second to import, which only those who want a picture should wait for.
    from copriv.pictures.simulation import psi_against_k
    from copriv.pictures.style import png

    return {
        f"{name}.json": document.encode() + b"\n",
        f"{name}.csv": series_csv(simulation).encode(),
        f"{name}.png": png(psi_against_k(simulation), made_by),
    }


def curves_csv(outlook: Forecast) -> str:
    """terms, k, mean, median, low, high: one line for each k of the agreed and of the recommended terms."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["terms", "k", "mean", "median", "low", "high"])
    for name, one in (("agreed", outlook.agreed), ("recommended", outlook.recommended)):
        ψ = one.relative_fitness
        columns = zip(ψ.k.tolist(), *(c.tolist() for c in (ψ.mean, ψ.median, ψ.low, ψ.high)), strict=True)
        writer.writerows([name, *row] for row in columns)
    return text.getvalue()


def forecast_files(outlook: Forecast, document: str, made_by: str) -> dict[str, bytes]:
    """The files of a forecast; `document` is its JSON, `made_by` the command that the pictures name."""
    from copriv.pictures.forecast import break_even, curves
    from copriv.pictures.heterogeneity import by_heterogeneity
    from copriv.pictures.style import png

    unlike = {"unlike-owners.png": png(by_heterogeneity(outlook), made_by)} if outlook.at_heterogeneity else {}
    return {
        "forecast.json": document.encode() + b"\n",
        "forecast.csv": curves_csv(outlook).encode(),
        "forecast-curve.png": png(curves(outlook), made_by),
        "break-even.png": png(break_even(outlook), made_by),
        "agreed.toml": outlook.agreed.agreement.to_toml().encode(),
        "recommended.toml": outlook.recommended.agreement.to_toml().encode(),
        **unlike,
    }
