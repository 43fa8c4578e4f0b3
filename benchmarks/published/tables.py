"""The tables: published ones where they are at hand, and others, half of which are kept for the end.

Published ones are as their authors prepared them (README of the folder). Others are prepared alike: columns less their
mean and over their standard deviation, all rows over the longest one's L2 norm, y less its mean and over its largest size.
Nothing of that is private or paid for; peers take row norm and range of y as known, too. Training rows alone judge a
regression. A table of classes has labels −1 and 1.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn import datasets

from benchmarks.published import textbook
from copriv.types import Array

PUBLISHED = ("bike", "airfoil", "protein", "parkinsons", "autompg", "concrete")
ROWS = 10_000
"""Drawn of tables that have more, so that a benchmark of all cells ends."""
EMBEDDED = Path(__file__).parents[2] / "src" / "copriv" / "data" / "embedded" / "lending_club_9857.parquet"


@dataclass(frozen=True, eq=False)
class Table:
    """Rows within L2 norm 1, and |y| at most 1."""

    name: str
    x: Array
    y: Array
    classes: bool = False
    test: tuple[Array, Array] | None = None
    """Rows that judge AUC; None: the training rows do."""
    stated_delta: float | None = None
    large: bool = False
    """Whether a fit takes so long that only a few cells of it are measured, by a few runs."""

    @property
    def delta(self) -> float:
        """1/n², unless the peers' figures are at another."""
        return 1.0 / len(self.y) ** 2 if self.stated_delta is None else self.stated_delta


def prepared(name: str, x: Any, y: Any, classes: bool = False) -> Table:
    """A table that is not published, prepared as the published ones are."""
    x, y = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    if len(y) > ROWS:
        some = np.random.default_rng(27).choice(len(y), ROWS, replace=False)
        x, y = x[some], y[some]
    x = x[:, x.std(axis=0) > 0]
    x = (x - x.mean(axis=0)) / x.std(axis=0)
    x /= np.linalg.norm(x, axis=1).max()
    if not classes:
        y = (y - y.mean()) / np.abs(y - y.mean()).max()
    return Table(name, x, y, classes)


def published(folder: Path, name: str) -> Table | None:
    """The authors' training rows. None where the folder is not at hand."""
    path = folder / "published" / f"{name}.parquet"
    if not path.exists():
        return None
    rows = pd.read_parquet(path)
    train = rows[~rows["test"].astype(bool)]
    columns = [c for c in rows if c.startswith("x")]
    return Table(name, train[columns].to_numpy(), train["y"].to_numpy())


def adult(folder: Path) -> Table | None:
    """A column for every level but the first, over √(number of variables): rows within norm 1 whatever stands in them."""
    path = folder / "published" / "adult.parquet"
    if not path.exists():
        return None
    rows = pd.read_parquet(path)
    levels = [c for c in rows if c not in ("income>50K", "test")]
    x = np.hstack([rows[[c]].to_numpy() == np.arange(1, rows[c].max() + 1) for c in levels]) / np.sqrt(len(levels))
    y, test = np.where(rows["income>50K"] > 0, 1.0, -1.0), rows["test"].to_numpy(dtype=bool)
    return Table("adult", x[~test], y[~test], True, (x[test], y[test]), stated_delta=1e-5, large=True)


def _labels(second: Any) -> Array:
    return np.where(second, 1.0, -1.0)


def _pixels(name: str, picture: str) -> Table:
    """A pixel's blue from red and green of the nine pixels around it."""
    image = datasets.load_sample_image(picture).astype(float)
    h, w, _ = image.shape
    around = [image[i : h - 2 + i, j : w - 2 + j, :2].reshape(-1, 2) for i in range(3) for j in range(3)]
    return prepared(name, np.hstack(around), image[1:-1, 1:-1, 2].ravel())


def _digits_lower() -> Table:
    """Ink in the lower half of a handwritten digit from the pixels of its upper half."""
    x = datasets.load_digits().data
    return prepared("digits-lower", x[:, :32], x[:, 32:].sum(axis=1))


def _diabetes() -> Table:
    return prepared("diabetes", *datasets.load_diabetes(return_X_y=True))


def _one_of(name: str, load: Callable[[], Any], column: int) -> Table:
    """One measurement of a bundled table from the others."""
    x = load().data
    return prepared(name, np.delete(x, column, axis=1), x[:, column])


def _cancer_area() -> Table:
    """The largest nucleus' area from the ten means."""
    x = datasets.load_breast_cancer().data
    return prepared("cancer-area", x[:, :10], x[:, 23])


def _linnerud() -> Table:
    """Waist of twenty men from three exercises."""
    found = datasets.load_linnerud()
    return prepared("linnerud", found.data, found.target[:, 1])


def _lending() -> Table:
    """Interest rate from the numbers of a loan."""
    rows = pd.read_parquet(EMBEDDED)
    x = rows.select_dtypes("number").drop(columns="int_rate").fillna(0.0)
    return prepared("lending", x, rows["int_rate"])


def _of_groups(folder: Path, name: str) -> Table | None:
    """The numbers of a table of groups that differ, where it is at hand."""
    path = folder / "unlike" / f"{name}.parquet"
    if not path.exists():
        return None
    rows = pd.read_parquet(path)
    x = rows.drop(columns=["_owner", "_target"]).select_dtypes("number").fillna(0.0)
    return prepared(name, x, rows["_target"])


def _classes(
    name: str, load: Callable[[], Any], second: tuple[int, ...], among: tuple[int, ...] | None = None
) -> Table:
    """Two classes of a bundled table: labels in `second`, against all others or those `among`."""
    found = load()
    some = np.isin(found.target, among) if among else np.full(len(found.target), True)
    return prepared(name, found.data[some], _labels(np.isin(found.target[some], second)), classes=True)


def _textbook(name: str) -> Table | None:
    """A table of `textbook`, where its package is installed."""
    try:
        x, y = textbook.columns_of(name)
    except ImportError:
        return None
    return prepared(name, x, _labels(y == 1), classes=True) if name in textbook.CLASSES else prepared(name, x, y)


Open = Callable[[Path], Table | None]
OTHERS: dict[str, Open] = {
    "diabetes": lambda _: _diabetes(),
    "wine-alcohol": lambda _: _one_of("wine-alcohol", datasets.load_wine, 0),
    "iris-petal": lambda _: _one_of("iris-petal", datasets.load_iris, 3),
    "digits-lower": lambda _: _digits_lower(),
    "china": lambda _: _pixels("china", "china.jpg"),
    "diamonds": lambda folder: _of_groups(folder, "diamonds"),
    "breast-cancer": lambda _: _classes("breast-cancer", datasets.load_breast_cancer, (1,)),
    "digits-even": lambda _: _classes("digits-even", datasets.load_digits, (0, 2, 4, 6, 8)),
}
KEPT_FOR_THE_END: dict[str, Open] = {
    "cancer-area": lambda _: _cancer_area(),
    "linnerud": lambda _: _linnerud(),
    "flower": lambda _: _pixels("flower", "flower.jpg"),
    "lending": lambda _: _lending(),
    "wine-proline": lambda _: _one_of("wine-proline", datasets.load_wine, 12),
    "cps1988": lambda folder: _of_groups(folder, "cps1988"),
    "iris-versicolor": lambda _: _classes("iris-versicolor", datasets.load_iris, (1,), (1, 2)),
    "digits-one": lambda _: _classes("digits-one", datasets.load_digits, (1,)),
}
"""Kept for the end: nobody looks at these while the mechanisms are made. `--held-back` opens them."""


def tables(folder: Path, held_back: bool = False) -> Iterator[tuple[str, Table | None]]:
    """(name, table), small ones first among others; None in place of a table that is not at hand."""
    for name in PUBLISHED:
        yield name, published(folder, name)
    for name, opened in (OTHERS | (KEPT_FOR_THE_END if held_back else {})).items():
        yield name, opened(folder)
    yield "adult", adult(folder)
    for name in textbook.REGRESSIONS | textbook.CLASSES:
        if held_back or not textbook.kept_for_the_end(name):
            yield name, _textbook(name)
