"""The data sets that an agreement can name, on one list.

A data set is one file and one entry in `ALL`: an object with a `name` that opens its table (`copriv.data.source.DataSet`).
"""

from copriv.data.datasets.creditcard import CardTransactions
from copriv.data.datasets.hospital import HospitalStays
from copriv.data.datasets.hospital_simulated import SimulatedHospitals
from copriv.data.datasets.lending import LendingClub
from copriv.data.datasets.lending_embedded import EmbeddedLoans
from copriv.data.datasets.own_table import OwnTable
from copriv.data.source import DataSet
from copriv.errors import DataError

ALL: tuple[DataSet, ...] = (
    LendingClub(),
    EmbeddedLoans(),
    CardTransactions(),
    HospitalStays(),
    SimulatedHospitals(),
    OwnTable(),
)
"""In the order in which messages list them."""


def named(name: str) -> DataSet:
    """The data set that an agreement names. Raises DataError, listing the names that there are."""
    for dataset in ALL:
        if dataset.name == name:
            return dataset
    raise DataError(f"data.dataset: {name!r} is not known; use one of {', '.join(names())}")


def names() -> tuple[str, ...]:
    """What an agreement can name."""
    return tuple(dataset.name for dataset in ALL)
