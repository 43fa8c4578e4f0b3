"""Five credit unions with tables of their own (simulated): four numbers, three categories, a date and missing values.

They differ in size (20,000 to 800 loans), in level and in slopes, as the issue on verdicts describes; `fresh` gives new
rows of an owner's own population, on which its models are judged.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

SIZES = {"Harbour": 20_000, "Northside": 8_000, "Prairie": 4_000, "Summit": 1_800, "Valley": 800}
PUBLIC_ROWS = 120
"""Of each, given to everybody with the union's name."""
REGIONS, PURPOSES, HOUSING = (
    ("east", "middle", "west"), ("car", "home", "other", "study"), ("own", "mortgage", "rent"),
)  # fmt: skip
TERMS = """
[agreement]
name = "five unions"
rule = "auto"

[model]
loss = "squared"
regularization = 1e-5
intercept = true

[data]
public = "public.csv"
components = 0
features = ["age", "income", "amount", "debt_ratio", "region", "purpose", "housing", "opened"]
target = "rate"
bounds = {age = [18, 90], income = [0, 400000], amount = [500, 40000], debt_ratio = [0, 1], rate = [-5, 40]}
scales = {income = "log", amount = "log"}

dates = {opened = [2015-01-01, 2024-12-31]}
missing = {income = 45000, debt_ratio = 0.3, purpose = "other"}
clamp = ["age", "income", "amount", "debt_ratio", "rate", "opened"]

[data.categories]
region = ["east", "middle", "west"]
purpose = ["car", "home", "other", "study"]
housing = ["own", "mortgage", "rent"]
"""


@dataclass(frozen=True)
class Union:
    """One union's population: its level and slopes, and the mix of its members."""

    name: str
    number: int

    def rows(self, n: int, seed: int) -> pd.DataFrame:
        """So many new members."""
        rng = np.random.default_rng([self.number, seed])
        own = np.random.default_rng([self.number, 7])
        level, slope = 1.2 * own.normal(), 0.6 * own.normal(size=4)
        mix = own.dirichlet([8.0, 8.0, 8.0])
        age = rng.gamma(12, 3.6, n) + 18
        income = rng.lognormal(10.7 + 0.15 * own.normal(), 0.5, n)
        amount = rng.lognormal(9.0, 0.7, n)
        debt = rng.beta(2, 5, n)
        region, purpose = rng.choice(3, n, p=mix), rng.choice(4, n, p=[0.3, 0.3, 0.25, 0.15])
        housing, days = rng.choice(3, n), rng.integers(0, 3653, n)
        rate = (
            12.0 + level - (0.8 + slope[0]) * (np.log(income) - 10.7) + (1.0 + slope[1]) * (np.log(amount) - 9.0)
            + (5.0 + 3.0 * slope[2]) * (debt - 0.3) - (0.02 + 0.02 * slope[3]) * (age - 60)
            + np.array([0.0, 0.5, -0.4])[region] + np.array([0.3, -0.8, 0.4, 0.0])[purpose]
            + np.array([-0.5, -0.2, 0.6])[housing] + days / 3653 + 1.5 * rng.normal(size=n)
        )  # fmt: skip
        table = pd.DataFrame({
            "age": age.round(), "income": income.round(), "amount": amount.round(), "debt_ratio": debt.round(3),
            "region": np.array(REGIONS)[region], "purpose": np.array(PURPOSES)[purpose],
            "housing": np.array(HOUSING)[housing],
            "opened": (pd.Timestamp("2015-01-01") + pd.to_timedelta(days, "D")).strftime("%Y-%m-%d"), "rate": rate.round(2),
        })  # fmt: skip
        for column, share in (("income", 0.05), ("debt_ratio", 0.08), ("purpose", 0.03)):
            table[column] = table[column].astype(object).where(rng.uniform(size=n) > share, "NA")
        return table


UNIONS = tuple(Union(name, number) for number, name in enumerate(SIZES, start=1))


def write(folder: Path, strata: bool = False) -> Path:
    """The five tables, the public one and the agreement, whose path is returned."""
    for union in UNIONS:
        union.rows(SIZES[union.name], seed=0).to_csv(folder / f"{union.name.lower()}.csv", index=False)
    public = [union.rows(PUBLIC_ROWS, seed=1).assign(union=union.name) for union in UNIONS]
    pd.concat(public).to_csv(folder / "public.csv", index=False)
    owners = [f'\n[[owner]]\nname = "{name}"\nrecords = {n}\nepsilon = 1.0\n' for name, n in SIZES.items()]
    terms = TERMS.replace('public = "public.csv"', 'public = "public.csv"\nstrata = "union"') if strata else TERMS
    (folder / "agreement.toml").write_text(terms + "".join(owners))
    return folder / "agreement.toml"
