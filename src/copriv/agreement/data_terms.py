"""What an agreement says of its data, in the words of `copriv.data`."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from copriv.agreement import Agreement
from copriv.data import datasets
from copriv.data.declared import declared_schema
from copriv.data.dictionary import PublicDictionary
from copriv.data.schema import Schema
from copriv.data.specification import DataSpecification, open_dataset
from copriv.errors import AgreementError, DataError
from copriv.formatting.sanitize import reason


def data_specification(agreement: Agreement) -> DataSpecification:
    """What the agreement says of its data; the intercept is left to the fitness.

    Raises AgreementError where the agreement names no data, or a dictionary that cannot be read.
    """
    data, first = agreement.data, agreement.owner_tables[0]
    return DataSpecification(
        dataset=data.named,
        path=data.path,
        schema=schema_of(agreement, unit=None),
        unit=first.unit,
        unit_records=first.unit_records,
        scaling=data.scaling,
        seed=agreement.agreement.seed,
        public=data.public,
        public_rows=data.public_rows,
        components=data.components,
        dictionary=_dictionary(agreement),
        mean_square=data.mean_square,
        fourier_features=data.fourier_features,
        fourier_width=data.fourier_width or "auto",
        feature_bound=data.feature_bound,
    )


def schema_of(agreement: Agreement, unit: str | None) -> Schema | None:
    """The schema that [data] declares, with this unit; None where the data set brings its own columns."""
    data = agreement.data
    if data.features is None and data.target is None:
        return None
    declared = declared_schema(data.model_dump())
    return replace(declared, unit=unit, scaling=data.scaling or declared.scaling)


def own_table(agreement: Agreement, source: object, unit: str | None) -> tuple[Any, Schema]:
    """A party's own table, and the schema that it has to keep to.

    source: the path of a file, or a frame where the columns are declared. Raises DataError for a file that cannot be read.
    """
    kind = datasets.named(agreement.data.named)
    declared = schema_of(agreement, unit)
    if declared is not None and kind.own_columns:
        return source, declared
    if not isinstance(source, str | Path):
        raise DataError('data.dataset: records from a data base need declared columns; use dataset = "table"')
    opened = open_dataset(kind.read_from, path=source, schema=declared, unit=unit, scaling=agreement.data.scaling)
    return opened.table, opened.schema


def as_agreed(agreement: Agreement, dictionary: PublicDictionary) -> PublicDictionary:
    """A dictionary that was read from a file. Raises AgreementError where it is not of the shape that was agreed on."""
    agreed, waves = agreement.data.fourier_features, dictionary.waves
    if agreed != (None if waves is None else waves.features):
        raise AgreementError(
            f"data.fourier_features: {agreed or 'none'} agreed, the dictionary has {waves.features if waves else 'none'}; "
            "make the file again (copriv init --network) or correct the agreement"
        )
    return dictionary


def _dictionary(agreement: Agreement) -> PublicDictionary | None:
    path = agreement.data.dictionary if agreement.data.mapped else None
    if path is None:
        return None
    try:
        return as_agreed(agreement, PublicDictionary.from_json(Path(path).read_text(encoding="utf-8")))
    except (OSError, UnicodeDecodeError) as error:
        raise AgreementError(
            f"data.dictionary: {path} cannot be read ({reason(error)}); run in the folder that the path starts from, or leave "
            "the key out to fit one on the public rows"
        ) from None
