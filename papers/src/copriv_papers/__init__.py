"""The experiments of both papers, figure by figure, from the command line (`copriv reproduce`) and from here.

    from copriv_papers import FIGURES, Effort, reproduce

A plug-in of copriv, which loads the entry points `command` and `live` of the group `copriv.reproduce`, and imports nothing of
this package.
"""

from copriv_papers.figure import Effort, Figure
from copriv_papers.figures import BEYOND, FIGURES
from copriv_papers.runner import Report, reproduce

__all__ = ["BEYOND", "FIGURES", "Effort", "Figure", "Report", "reproduce"]
