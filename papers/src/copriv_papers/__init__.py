"""The experiments of both papers, figure by figure, from the command line (`copriv reproduce`) and from here.

    from copriv_papers import FIGURES, Effort, reproduce

A plug-in of copriv: the entry points `command` and `live` of the group `copriv.reproduce` are all that copriv asks for, and
nothing there imports this package.
"""

from copriv_papers.figure import Effort, Figure
from copriv_papers.figures import BEYOND, FIGURES
from copriv_papers.runner import Report, reproduce

__all__ = ["BEYOND", "FIGURES", "Effort", "Figure", "Report", "reproduce"]
