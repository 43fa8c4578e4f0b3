"""Card transactions of September 2013: fraud (+1) or not (−1); 284,807 rows of which 492 are fraud.

Read from `path` (the published `creditcard.csv`) or from `../shared/data/creditcard.parquet` (Worldline and the Machine
Learning Group of ULB; Database Contents License 1.0). V1 to V28 are principal components that the publisher made, so
the papers use no further dictionary (`components = 0`) and take them in their own units; the amount is divided by 250,
about its standard deviation, so that it weighs like the others. Time is left out.

The file is in the order of time and frauds come in bursts, so its rows are shuffled once, by a seed that never changes.
"""

from pathlib import Path

from copriv.data.schema import Number, Schema, TwoClasses
from copriv.data.source import SHARED, Source
from copriv.data.tables import read_table
from copriv.errors import DataError

SCHEMA = Schema(
    columns=(
        *(Number(f"V{k}", -150, 150, scale=1.0) for k in range(1, 29)),
        Number("Amount", 0, 30_000, scale=250.0),
    ),
    target=TwoClasses("Class", negative="0", positive="1"),
)


def load(path: Path | None = None) -> Source:
    """The transactions. Raises DataError where neither a path nor the shared file is there."""
    found = path or SHARED / "creditcard.parquet"
    if path is None and not found.is_file():
        raise DataError(
            "data.path: the card transactions are not inside the package; download creditcard.csv (Kaggle, "
            "mlg-ulb/creditcardfraud) and give its path"
        )
    return Source(read_table(found, SCHEMA.names), SCHEMA, f"Card transactions in {found.name}", shuffled=True)
