"""The report for a data-protection officer: who, what left, under which guarantee, what is spent, and what is not covered.

`document` makes it, as JSON values (`copriv.report/1`), from the owner's ledger, runs' files and agreements; no record is read.
`page` renders a document as one HTML file, and adds no numbers.
"""

from copriv.report.build import document, page
from copriv.report.evidence import RunFile

__all__ = ["RunFile", "document", "page"]
