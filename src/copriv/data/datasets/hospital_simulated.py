"""Simulated hospital visits with the columns of SPARCS, drawn from a seed: not real, and they say so."""

import narwhals.stable.v2 as nw
import numpy as np
import pyarrow as pa

from copriv.data.datasets.hospital import FACILITY, SPARCS, numbered
from copriv.data.schema import Category
from copriv.data.source import Source, Wanted
from copriv.errors import DataError

MOST_ROWS = 200_000
"""A simulated table has no more rows than this; larger owners are drawn from it with replacement."""


class SimulatedHospitals:
    """As many visits as are needed; the rows of a hospital are dealt to one owner, or to neighbours."""

    name = "hospital-simulated"
    own_columns = False
    read_from = "hospital"
    published: tuple[tuple[str, int], ...] = ()

    def open(self, wanted: Wanted) -> Source:
        """Raises DataError where a path is given."""
        if wanted.path is not None:
            raise DataError(f"data.path: {self.name!r} reads no file; drop the path, or name another data set")
        table = nw.from_native(simulate(min(wanted.rows, MOST_ROWS), wanted.seed), eager_only=True)
        title = f"Simulated hospital discharges with the columns of SPARCS 2015 (seed {wanted.seed})"
        return Source(table, SPARCS, title, kind="simulated", group=numbered(table, FACILITY))


def simulate(rows: int, seed: int) -> pa.Table:
    """Draw visits: 120 hospitals of uneven size, the sick and the old stay longer, hospitals differ by ±20 percent.

    The length of stay is 1 + Poisson with a gamma-distributed mean (heavy to the right, as real stays are), at most
    120. A function of `rows` and `seed` only.
    """
    rng = np.random.default_rng([seed, rows])
    share = rng.lognormal(0.0, 0.6, 120)
    hospital = rng.choice(120, rows, p=share / share.sum())
    age = rng.choice(5, rows, p=[0.15, 0.11, 0.2, 0.26, 0.28])
    severity = 1 + rng.binomial(3, 0.16 + 0.07 * age)
    risk = np.clip(severity - 1 + rng.integers(-1, 2, rows), 0, 3)
    mdc = rng.integers(0, 26, rows)
    surgical = rng.choice(3, rows, p=[0.01, 0.75, 0.24])
    admission = rng.choice(6, rows, p=[0.19, 0.1, 0.001, 0.08, 0.627, 0.002])
    effect = rng.normal(0.0, 0.2, 120)
    mean = 1.1 * np.exp(0.42 * (severity - 1) + 0.08 * age + 0.25 * (surgical == 2) + 0.01 * mdc + effect[hospital])
    stay = np.minimum(1 + rng.poisson(mean * rng.gamma(1.5, 1 / 1.5, rows)), 120)

    def named(column: str, places: np.ndarray) -> list[str]:
        (declared,) = (c for c in SPARCS.columns if c.name == column)
        levels = declared.levels if isinstance(declared, Category) else ()
        return np.array(levels)[places].tolist()  # type: ignore[no-any-return]

    return pa.table(
        {
            FACILITY: hospital + 1,
            "Age Group": named("Age Group", age),
            "Gender": named("Gender", rng.choice(2, rows, p=[0.56, 0.44])),
            "Race": named("Race", rng.choice(4, rows, p=[0.56, 0.19, 0.24, 0.01])),
            "Ethnicity": named("Ethnicity", rng.choice(4, rows, p=[0.82, 0.12, 0.055, 0.005])),
            "Length of Stay": stay,
            "Type of Admission": named("Type of Admission", admission),
            "Patient Disposition": named("Patient Disposition", np.minimum(rng.geometric(0.55, rows) - 1, 18)),
            "CCS Diagnosis Code": rng.integers(1, 260, rows),
            "CCS Procedure Code": np.where(surgical == 2, rng.integers(1, 232, rows), 0),
            "APR DRG Code": np.minimum(1 + 36 * mdc + rng.integers(0, 36, rows), 956),
            "APR MDC Code": mdc,
            "APR Severity of Illness Code": severity,
            "APR Risk of Mortality": named("APR Risk of Mortality", risk),
            "APR Medical Surgical Description": named("APR Medical Surgical Description", surgical),
            "Payment Typology 1": named("Payment Typology 1", np.minimum(rng.geometric(0.4, rows) - 1, 9)),
            "Emergency Department Indicator": named("Emergency Department Indicator", (admission >= 4).astype(int)),
        }
    )
