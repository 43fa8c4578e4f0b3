"""From tables to bounded numbers: files and frames, schemas, public dictionaries, and the papers' data sets."""

from copriv.data import datasets
from copriv.data.consortium import Consortium, load_consortium, prepare_owner
from copriv.data.dictionary import PublicDictionary, RandomFeatures
from copriv.data.schema import Category, EncodedTable, Number, Schema, TwoClasses, check_table
from copriv.data.specification import DataSpecification, open_dataset
from copriv.data.tables import read_table

DATASETS = datasets.names()
"""What an agreement can name in data.dataset."""

__all__ = [
    "DATASETS",
    "Category",
    "Consortium",
    "DataSpecification",
    "EncodedTable",
    "Number",
    "PublicDictionary",
    "RandomFeatures",
    "Schema",
    "TwoClasses",
    "check_table",
    "load_consortium",
    "open_dataset",
    "prepare_owner",
    "read_table",
]
