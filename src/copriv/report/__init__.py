"""The report for a data-protection officer: who, what left, under which guarantee, what is spent, and what is not covered.

`document` makes it, as plain values that are JSON (`copriv.report/1`); `page` makes one HTML file of such a document, and
adds no number of its own. What a report may rest on is the owner's ledger, runs' files and agreements: no record is read.
"""

from copriv.report.build import document
from copriv.report.evidence import RunFile
from copriv.report.page import page

__all__ = ["RunFile", "document", "page"]
