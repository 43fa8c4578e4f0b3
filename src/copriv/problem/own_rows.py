"""An owner's own table, and the public rows, as arrays of the agreement's features: for what is worked out at home.

Neither has the intercept yet: what takes them (`copriv.personalize`, `copriv.owner_verdict`) gives it to both.
"""

from dataclasses import dataclass, replace

from copriv.agreement import Agreement
from copriv.agreement.data_terms import data_specification, own_table
from copriv.data import datasets
from copriv.data.consortium import prepare_owner
from copriv.data.dictionary import PublicDictionary
from copriv.data.public import load_sample
from copriv.errors import AgreementError, DataError
from copriv.model.records import Records


@dataclass(frozen=True, eq=False)
class RowsAtHome:
    """An owner's records, and the public ones and their strata where there are any."""

    own: Records
    public: Records | None
    strata: tuple[str, ...] | None


def rows_at_home(agreement: Agreement, name: str, table: object, dictionary: PublicDictionary | None) -> RowsAtHome:
    """Prepare the table of owner `name`, and the public rows that the agreement names.

    table: the path of a file, or a frame. dictionary: the agreed one; None: the one that the agreement names, or that is fitted
    to the public rows. Raises DataError where a table is not as agreed, AgreementError where the dictionary is not known.
    """
    data, sample = agreement.data, None
    if dictionary is not None:
        agreement = agreement.replace(data={"dictionary": None})  # its file is not looked for
    agreed = replace(data_specification(agreement), feature_bound=0.0)
    agreed = replace(agreed, dictionary=dictionary or agreed.dictionary)
    if data.public is not None or not (data.path or datasets.named(agreed.dataset).own_columns):
        sample = load_sample(agreed, strata=data.strata)
    known = agreed.dictionary if sample is None else sample.preparation.dictionary
    if data.mapped and known is None:
        raise AgreementError(
            "data.components: the features are made by a public dictionary, which is in no file here; give the public rows "
            "(--public), or the agreement with its dictionary as copriv init --network writes it"
        )
    terms = agreement.terms_of(name)
    rows, schema = own_table(agreement, table, terms.unit)
    own = prepare_owner(rows, schema, known, None, unit_records=terms.unit_records)
    if own.units != terms.records:
        what = "records" if terms.unit is None else "persons"
        raise DataError(
            f"{name}: the agreement says {terms.records:,} {what}, and this table has {own.units:,}; give its own table, or "
            "correct owner.records"
        )
    if sample is None:
        return RowsAtHome(own, None, None)
    return RowsAtHome(own, sample.records, sample.strata)
