"""Hospital visits: the length of stay, in days, from what is recorded about the patient and the admission.

- The papers' file, New York's SPARCS 2015 (`Hospital_Inpatient_Discharges__SPARCS_De-Identified___2015.csv`,
  2.35 million rows). Charges, costs and places are left out, as in the papers. Only hospitals with at least 10,000
  records are owners' rows, sorted by facility; `sizes` gives their numbers, so with those as `records` each owner is
  one hospital. The public rows are the last ones of the file, also as in the papers.
- `diabetes_130_hospitals.parquet`, or what `copriv data fetch hospital` keeps: 101,766 real stays in 130 US hospitals,
  1999 to 2008 (UCI, CC BY 4.0), which does not say which hospital. The owners' rows are sorted by payer, then by the
  physician's specialty, and cut into consecutive slices, so owners differ as hospitals do. The file is shuffled once
  first, by a seed that never changes, so that the public rows are a fair sample. `patient_nbr` names the person.
- "hospital-simulated": rows with the columns of SPARCS, drawn by `simulate` from a seed. Not real.
"""

from pathlib import Path

import narwhals.stable.v2 as nw
import numpy as np
import pyarrow as pa
from jaxtyping import Int

from copriv.data.cells import absent
from copriv.data.schema import Category, Number, Schema
from copriv.data.source import DataSet, Source, Wanted
from copriv.data.tables import Table, column_names, read_table
from copriv.errors import DataError

LEAST_RECORDS = 10_000
"""A hospital takes part with at least this many records (A, §V-B)."""

# fmt: off
_PAYERS = (
    "Medicare", "Medicaid", "Private Health Insurance", "Blue Cross/Blue Shield", "Self-Pay", "Managed Care, Unspecified",
    "Miscellaneous/Other", "Federal/State/Local/VA", "Department of Corrections", "Unknown",
)
_DISPOSITIONS = (
    "Home or Self Care", "Home w/ Home Health Services", "Skilled Nursing Home", "Expired", "Left Against Medical Advice",
    "Inpatient Rehabilitation Facility", "Short-term Hospital", "Hospice - Home", "Hospice - Medical Facility",
    "Psychiatric Hospital or Unit of Hosp", "Another Type Not Listed", "Court/Law Enforcement",
    "Facility w/ Custodial/Supportive Care", "Cancer Center or Children's Hospital",
    "Medicare Cert Long Term Care Hospital", "Hosp Basd Medicare Approved Swing Bed", "Federal Health Care Facility",
    "Critical Access Hospital", "Medicaid Cert Nursing Facility",
)
# fmt: on

SPARCS = Schema(
    columns=(
        Category.coded("Age Group", ("0 to 17", "18 to 29", "30 to 49", "50 to 69", "70 or Older")),
        Category.coded("Gender", ("F", "M", "U")),
        Category.coded("Race", ("White", "Black/African American", "Other Race", "Multi-racial")),
        Category.coded("Ethnicity", ("Not Span/Hispanic", "Spanish/Hispanic", "Unknown", "Multi-ethnic")),
        Category.coded("Type of Admission", ("Elective", "Newborn", "Not Available", "Urgent", "Emergency", "Trauma")),
        Category.coded("Patient Disposition", _DISPOSITIONS, missing="Another Type Not Listed"),
        Number("CCS Diagnosis Code", 0, 999, missing=0),
        Number("CCS Procedure Code", 0, 999, missing=0),
        Number("APR DRG Code", 0, 999),
        Category.coded("APR MDC Code", tuple(str(code) for code in range(26))),
        Number("APR Severity of Illness Code", 0, 4),
        Category.coded("APR Risk of Mortality", ("Minor", "Moderate", "Major", "Extreme"), missing="Minor"),
        Category.coded("APR Medical Surgical Description", ("Not Applicable", "Medical", "Surgical")),
        Category.coded("Payment Typology 1", _PAYERS, missing="Unknown"),
        Category.coded("Emergency Department Indicator", ("N", "Y")),
    ),
    target=Number("Length of Stay", 1, 120),
    scaling="none",
)
"""SPARCS 2015; the file writes a stay of 120 days or more as "120 +"."""

FACILITY = "Facility Id"
_ABSENT = "not recorded"

DIABETES = Schema(
    columns=(
        Category.coded(
            "race", (_ABSENT, "Other", "Asian", "Hispanic", "AfricanAmerican", "Caucasian"), missing=_ABSENT
        ),
        Category.coded("gender", ("Unknown/Invalid", "Female", "Male")),
        Category.coded("age", tuple(f"[{years}-{years + 10})" for years in range(0, 100, 10))),
        Category.coded("admission_type_id", tuple(str(code) for code in range(1, 9))),
        Category.coded("discharge_disposition_id", tuple(str(code) for code in range(1, 31))),
        Category.coded("admission_source_id", tuple(str(code) for code in range(1, 27))),
        Number("num_lab_procedures", 0, 100, cap=True),
        Number("num_procedures", 0, 6, cap=True),
        Number("num_medications", 0, 40, cap=True),
        Number("number_outpatient", 0, 20, cap=True),
        Number("number_emergency", 0, 20, cap=True),
        Number("number_inpatient", 0, 10, cap=True),
        Number("number_diagnoses", 0, 16, cap=True),
        Category.coded("max_glu_serum", (_ABSENT, "Norm", ">200", ">300"), missing=_ABSENT),
        Category.coded("A1Cresult", (_ABSENT, "Norm", ">7", ">8"), missing=_ABSENT),
        Category.coded("metformin", ("No", "Down", "Steady", "Up")),
        Category.coded("insulin", ("No", "Down", "Steady", "Up")),
        Category.coded("change", ("No", "Ch")),
        Category.coded("diabetesMed", ("No", "Yes")),
    ),
    target=Number("time_in_hospital", 1, 14),
    scaling="none",
)
"""The 130 hospitals' table."""


def _open(wanted: Wanted, rows: int) -> Source:
    if wanted.file is None:
        raise DataError(
            "data.path: hospital visits are not inside the package; get some with copriv data fetch hospital, or SPARCS "
            "2015 (health.data.ny.gov, data set 82xm-y6g8) as CSV, and give the path; or use dataset = "
            '"hospital-simulated"'
        )
    return _read(wanted.file)


def _read(path: Path) -> Source:
    names = column_names(path)
    if DIABETES.target.name not in names:
        table = _sparcs(path, names)
        title = f"New York hospital discharges in {path.name}"
        return Source(table, SPARCS, title, path, group=_groups(table, FACILITY), least_group=LEAST_RECORDS)
    owner_columns = ("payer_code", "medical_specialty")
    table = read_table(path, [*DIABETES.names, "patient_nbr", *owner_columns])
    for name in owner_columns:
        if name not in names:
            raise DataError(f"{path}: lacks {name}, which tells the owners apart; give the complete table")
    keys = np.column_stack([_groups(table, name) for name in owner_columns])
    title = f"Stays of diabetics in 130 US hospitals ({path.stem}), cut by payer and specialty"
    group = np.unique(keys, axis=0, return_inverse=True)[1].reshape(-1)
    return Source(table, DIABETES, title, path, shuffled=True, group=group)


def sizes(path: str | Path, public_rows: int = 50_000) -> list[int]:
    """Count the records of each hospital of a SPARCS file, without the public rows, in the order of owners.

    As `records` of `load_consortium` with the same `public_rows` and nothing held out, each owner is one hospital.
    """
    source = _read(Path(path))
    if source.group is None or source.shuffled:
        raise DataError(f"{path}: does not say which hospital a row belongs to; give the SPARCS file")
    counts = np.bincount(source.group[: len(source.group) - public_rows])
    return [int(n) for n in counts if n >= LEAST_RECORDS]


def _sparcs(path: Path, names: list[str]) -> Table:
    """Read the columns of SPARCS under their names of 2015; other years write "Facility ID"."""
    given = {name.strip().lower(): name for name in names}
    wanted = (*SPARCS.names, FACILITY)
    lacking = [name for name in wanted if name.lower() not in given]
    if lacking:
        raise DataError(
            f"{path}: not a table of hospital visits that is known here: it lacks {', '.join(lacking)}; add them, or "
            'declare your own columns with dataset = "table"'
        )
    table = read_table(path, [given[name.lower()] for name in wanted])
    table = table.select([nw.col(given[name.lower()]).alias(name) for name in wanted])
    stay = table["Length of Stay"]
    if stay.dtype == nw.String:
        table = table.with_columns(stay.str.replace_all("120 +", "120", literal=True).alias("Length of Stay"))
    return table


def _groups(table: Table, name: str) -> Int[np.ndarray, " rows"]:
    """Number the groups of a column in the order of their names; rows without a name are one more group."""
    # Padded, so that identifiers that are numbers sort as numbers.
    labels = np.array(["" if absent(value) else str(value).zfill(8) for value in table[name].to_list()])
    return np.unique(labels, return_inverse=True)[1].reshape(-1)


def _open_simulated(wanted: Wanted, rows: int) -> Source:
    # Larger owners are drawn from 200,000 rows with replacement.
    table = nw.from_native(simulate(min(rows, 200_000), wanted.seed), eager_only=True)
    title = f"Simulated hospital discharges with the columns of SPARCS 2015 (seed {wanted.seed})"
    return Source(table, SPARCS, title, kind="simulated", group=_groups(table, FACILITY))


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

    def named(column: str, places: Int[np.ndarray, " rows"]) -> list[str]:
        levels = next(c.levels for c in SPARCS.columns if isinstance(c, Category) and c.name == column)
        return [levels[place] for place in places]

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


HOSPITAL = DataSet(
    "hospital", _open, published=(("08c21fa6249958eeb15253a1988d2464972a516a5441ada1683795cee08e0da4", 2_006_228),)
)
HOSPITAL_SIMULATED = DataSet("hospital-simulated", _open_simulated, like="hospital")
"""Simulated visits; the rows of a hospital go to one owner, or to owners next to each other."""
