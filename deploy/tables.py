"""The loans inside the package as the tables of compose.yaml's parties: `python deploy/tables.py DIR`."""

import sys
from pathlib import Path

import pyarrow.csv
import pyarrow.parquet

from copriv.data.specification import open_dataset

folder = Path(sys.argv[1])
folder.mkdir(parents=True, exist_ok=True)
loans = open_dataset("lending-embedded").table.to_arrow()
loans = loans.select(["annual_inc", "funded_amnt", "revol_util", "int_rate"])
pyarrow.parquet.write_table(loans.slice(0, 6000), folder / "bank-1.parquet")
pyarrow.parquet.write_table(loans.slice(6000, 3000), folder / "bank-2.parquet")
pyarrow.csv.write_csv(loans.slice(9000, 600), folder / "bank-3.csv")  # for PostgreSQL: loans.sql
pyarrow.parquet.write_table(loans.slice(9600), folder / "public.parquet")
