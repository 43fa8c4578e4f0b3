"""What stands in both papers, in their order, with the pages that tell what is made of it: docs/papers/index.md.

Everything that has a number in the papers is listed here; figures, claims and open questions are on lists of their own.
"""

import re
from dataclasses import dataclass, replace

from copriv_papers.claims import CLAIMS
from copriv_papers.papers import Paper
from copriv_papers.questions import QUESTIONS

_BOUNDS = "explanation/cost-of-privacy.md#why-the-papers-bounds-cannot-predict"
_TOGETHER, _ONE_AT_A_TIME = (f"explanation/rules.md#two-{kind}-rules" for kind in ("synchronous", "asynchronous"))
_PROOF, _CLIPPED = "proofs/laplace.md#statement", "proofs/laplace.md#as-executed"
_TRUST = "explanation/security.md#who-trusts-whom"


@dataclass(frozen=True)
class Item:
    """A definition, assumption, algorithm, theorem, remark, figure or open question of a paper."""

    place: str
    """The paper's letter, and where: "S, Thm 1"."""
    what: str
    pages: tuple[str, ...]
    """Pages below docs/ that tell of it, with their anchors."""

    @property
    def links(self) -> str:
        """The pages as links of docs/papers/index.md, each by its own name."""
        return ", ".join(f"[{re.split(r'[/.]', page.partition('#')[0])[-2]}](../{page})" for page in self.pages)


NUMBERED: tuple[Item, ...] = (
    Item("S, Fig. 1", "A learner, and owners that answer its queries.", (_TRUST,)),
    Item("S, Assumption 1", "No record is held by two owners.", ("reference/agreement-file.md#overlap",)),
    Item("S, Remark 1", "Which models are of form (1).", ()),
    Item("S, Definition 1", "Differential privacy over a horizon.", ("proofs/composition.md#statement",)),
    Item("S, Assumption 2", "Regulariser and loss are convex.", ("reference/notation.md#what-is-fitted",)),
    Item("S, Assumption 3", "Gradients have an L1 norm of at most Ξ.", ("explanation/errata.md#erratum-1", _CLIPPED)),
    Item("S, Theorem 1", "Laplace noise of scale 2ΞT/(nε) keeps ε.", (_PROOF,)),
    Item("S, Algorithm 1", "Gradients, strongly convex and smooth: rule S1.", (_TOGETHER,)),
    Item("S, Algorithm 2", "Subgradients and an average: rule S2.", (_TOGETHER,)),
    Item("S, Theorem 2", "The cost falls with 1/ε² and 1/n²: (9), (10).", (_BOUNDS, "explanation/errata.md#erratum-5")),
    Item("S, Theorem 3", "Without smoothness, with 1/ε and 1/n: (11), (12).", (_BOUNDS, "explanation/errata.md#erratum-15")),
    Item("S, Remark 2", "Beside the bounds for one central owner.", (_BOUNDS,)),
    Item("A, Fig. 1", "A learner, and owners with private data.", (_TRUST,)),
    Item("A, Remark 1", "Data need not be i.i.d.; generalisation is left open.", ()),
    Item("A, Remark 2", "Owners in groups.", ()),
    Item("A, Algorithm 1", "One owner at a time, and copies: rule A1.", (_ONE_AT_A_TIME, "explanation/errata.md#erratum-2")),
    Item("A, Definition 1", "Differential privacy over a horizon.", ("proofs/composition.md#statement",)),
    Item("A, Remark 3", "(ε, δ) improves the cost by a constant at best.", ("gallery.md#delta",)),
    Item("A, Assumption 1", "A strongly convex regulariser, a convex loss.", ("reference/notation.md#what-is-fitted",)),
    Item("A, Assumption 2", "Gradients have an L1 norm of at most Ξ.", ("explanation/errata.md#erratum-1", _CLIPPED)),
    Item("A, Assumption 3", "T is the most iterations.", ("explanation/errata.md#erratum-8",)),
    Item("A, Theorem 1", "Laplace noise of scale 2ΞT/(nε) keeps ε.", (_PROOF,)),
    Item("A, Theorem 2", "The cost is at most terms in 1/(nε) and 1/(nε)²: (8) to (11).",
         (_BOUNDS, "explanation/errata.md#erratum-6")),
    Item("A, Remark 4", "Owners that are away, and weights for them.",
         ("explanation/errata.md#erratum-16", "explanation/rules.md#owners-that-drop-out")),
)  # fmt: skip


def anchor(place: str) -> str:
    """The anchor in docs/reference/claims.md of a place's first claim."""
    return "claim-" + re.sub(r"\W+", "-", place.lower().replace("§", "sec-")).strip("-")


def contents(paper: Paper) -> dict[str, list[Item]]:
    """What stands in a paper, in its order: numbered statements, figures, what is left open, and other sentences."""
    ours = f"{paper.letter}, "
    claimed = list(dict.fromkeys(claim.place for claim in CLAIMS if claim.place.startswith(ours) and not claim.beyond))
    asked = [one for one in QUESTIONS if one.place.startswith(ours)]

    def told(item: Item) -> Item:
        pages = [*item.pages, *(one.page for one in asked if one.place == item.place)]
        return replace(item, pages=(*pages, *(claim_at(place) for place in claimed if names(place, item.place))))

    numbered = [told(one) for one in NUMBERED if one.place.startswith(ours)]
    figures = [told(Item(one.source, one.title, (f"gallery.md#{one.identity}",))) for one in paper.figures]
    known = [one.place for one in (*numbered, *figures)]
    return {
        "Statements": numbered,
        "Figures": figures,
        "Left open": [Item(one.place, one.asks, (one.page,)) for one in asked if one.place not in known],
        "Other sentences with a number": [
            Item(
                place,
                " ".join(claim.sentence for claim in CLAIMS if claim.place == place and not claim.beyond),
                (claim_at(place),),
            )
            for place in claimed
            if not any(names(place, one) for one in known)
        ],
    }


def claim_at(place: str) -> str:
    """The first claim of a place, on its page."""
    return f"reference/claims.md#{anchor(place)}"


def names(place: str, item: str) -> bool:
    """Whether the place of a claim, such as "S, Thm 3; Remark 2", names this item of its paper."""
    letter, _, label = item.partition(", ")
    return (
        place.startswith(letter) and bool(re.search(rf"{label.replace('Theorem', 'Thm')}(?!\d)", place)) and bool(label)
    )
