"""Card transactions of September 2013: fraud (+1) or not (−1); 284,807 rows of which 492 are fraud.

Read from `path`: the published `creditcard.csv`, or the same as Parquet (Worldline and the Machine Learning Group of ULB;
Database Contents License 1.0). V1 to V28 are principal components that the publisher made, so
the papers use no further dictionary (`components = 0`) and take them in their own units; the amount is divided by 250,
about its standard deviation, so that it weighs like the others. Time is left out.

The file is in the order of time and frauds come in bursts, so its rows are shuffled once, by a seed that never changes.
"""

from copriv.data.schema import Number, Schema, TwoClasses
from copriv.data.source import DataSet, Source, Wanted
from copriv.data.tables import read_table
from copriv.errors import DataError

SCHEMA = Schema(
    columns=(*(Number(f"V{k}", -150, 150, scale=1.0) for k in range(1, 29)), Number("Amount", 0, 30_000, scale=250.0)),
    target=TwoClasses("Class", negative="0", positive="1"),
)


def _open(wanted: Wanted, rows: int) -> Source:
    if wanted.file is None:
        raise DataError(
            "data.path: the card transactions are not inside the package; get them with copriv data fetch creditcard, "
            "or download creditcard.csv (Kaggle, mlg-ulb/creditcardfraud), and give the path"
        )
    title = f"Card transactions in {wanted.file.name}"
    return Source(read_table(wanted.file, SCHEMA.names), SCHEMA, title, wanted.file, shuffled=True)


CREDITCARD = DataSet(
    "creditcard", _open, published=(("26da558bf07af59890bb01e634148cbe8b1af1088491b16706de612b1d2678ea", 28_144_386),)
)
