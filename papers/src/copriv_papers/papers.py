"""The two papers, section by section: which figures and which claims stand in which."""

import re
from dataclasses import dataclass

from copriv_papers.claims import CLAIMS, Claim
from copriv_papers.figure import Figure
from copriv_papers.figures import BEYOND, FIGURES
from copriv_papers.questions import QUESTIONS, Question


@dataclass(frozen=True)
class Section:
    """A part of a paper."""

    title: str
    places: str
    """A pattern that the place of each of its claims matches, after the paper's letter."""
    figures: tuple[str, ...] = ()
    """Their names, in order."""


@dataclass(frozen=True)
class Paper:
    """What `copriv reproduce` calls it, what it is called, and its parts."""

    identity: str
    letter: str
    title: str
    about: str
    sections: tuple[Section, ...]

    def claims(self, section: Section) -> tuple[Claim, ...]:
        """Of one section, in the paper's order."""
        of_it = re.compile(f"{self.letter}, (?:{section.places})")
        return tuple(claim for claim in CLAIMS if of_it.fullmatch(claim.place))

    def questions(self, section: Section) -> tuple[Question, ...]:
        """Remarks and open questions of one section."""
        of_it = re.compile(f"{self.letter}, (?:{section.places})")
        return tuple(one for one in QUESTIONS if of_it.fullmatch(one.place))

    @property
    def figures(self) -> tuple[Figure, ...]:
        """All of them, in the order of the sections."""
        known = {figure.identity: figure for figure in (*FIGURES, *BEYOND)}
        return tuple(known[name] for section in self.sections for name in section.figures)


def _figures(paper: str, first: int, last: int) -> tuple[str, ...]:
    return tuple(f"{paper}-fig{n}" for n in range(first, last + 1))


SYNCHRONOUS = Paper(
    "paper-sync",
    "S",
    "The Value of Collaboration in Convex Machine Learning with Differential Privacy",
    "All owners answer in each round; a learner descends by their noisy gradients (rules S1 and S2 here).",
    (
        Section("Abstract and introduction", r"abstract.*|§I"),
        Section("Section II: training on private data of others", r"§II-A|(after )?Thm 1|Remark 1"),
        Section("Section III: what it will cost", r"Thm [23].*|App\. C"),
        Section("Section IV-A: loans", r"§IV-A.*", _figures("sync", 2, 6)),
        Section("Section IV-B: card fraud", r"§IV-B.*", _figures("sync", 7, 11)),
        Section("Section V: what the paper concludes, and leaves open", r"§V"),
    ),
)
ASYNCHRONOUS = Paper(
    "paper-async",
    "A",
    "The Cost of Privacy in Asynchronous Differentially-Private Machine Learning",
    "One owner at a time answers, whenever it is ready; the learner keeps a copy of the model for each (rule A1 here).",
    (
        Section("Abstract and introduction", r"abstract.*|§I(;.*)?"),
        Section("Section III: asynchronous training", r"§III|Thm 1|Remark [12]"),
        Section("Section IV: how good private models are", r"Thm 2.*|after \(11\)|Remark 4|App\. B"),
        Section("Section V-A: loans", r"§V-A.*", _figures("async", 2, 6)),
        Section("Section V-B: hospitals", r"§V-B.*", _figures("async", 7, 10)),
        Section("Section V-C: card fraud", r"§V-C.*", _figures("async", 11, 11)),
        Section("Section VI: what the paper leaves open", r"§VI.*", ("frontier", "delta", "graph", "liars", "talk")),
    ),
)
PAPERS: tuple[Paper, ...] = (SYNCHRONOUS, ASYNCHRONOUS)
