"""Sentences of verdicts as values, which every screen shows: a terminal, a notebook, JSON and the pages.

A sentence is the key of its text and what fills the text's blanks: numbers, names, and other texts. The English texts are
here; pages show them too, and those of another language (`ui/texts`), with numbers as that language writes them.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from copriv.formatting.numbers import chance_range, listed, percent, percent_range, plain_number, times

FEW_NAMES = 5
"""Most names that a sentence lists; of more it says the number of the others."""
TEXTS = {
    "everybody": "everybody",
    "others": "the others",
    "records.common": "everybody's records",
    "records.one": "its own records",
    "records.own": "their own records",
    "better": "{gain} better",
    "no_better": "no better",
    "public": "the public rows alone",
    "constant": "a constant alone",
    "answer.yes": "Joining pays for {who}: {records} would be predicted {gain} better.",
    "answer.yes.personalized": "Joining pays for {who}: {records} would be predicted {gain} better, with the common model "
    "personalized at home.",
    "answer.no": "For {who} it does not pay; nobody loses.",
    "answer.none.own": "Joining does not pay for anybody: nobody's own records would be predicted {worthwhile} better.",
    "answer.none.common": "Joining does not pay for anybody: everybody's records would not be predicted {worthwhile} better.",
    "answer.none.own.one": "Joining does not pay for {who}: its own records would not be predicted {worthwhile} better.",
    "answer.none.common.one": "Joining does not pay for {who}: everybody's records would not be predicted {worthwhile} "
    "better.",
    "answer.open.rows": "Whether joining pays is open for {who}: there are fewer public rows than parameters; ten for each "
    "of these would tell.",
    "answer.open.targets": "Whether joining pays is open for {who}: all public rows have the same target; rows in which it "
    "differs would tell.",
    "answer.open": "Whether joining pays is open for {who}: it does with a probability of {chance}, and {yes} would be a yes.",
    "answer.open.gains": "Whether joining pays is open for {who}: {if_alike} if the owners hardly differ, {if_unlike} if they "
    "differ as in real tables.",
    "answer.open.chances": "Whether joining pays is open for {who}: it does with a probability of {chance_alike} ({if_alike}) "
    "if the owners hardly differ, with a probability of {chance_unlike} ({if_unlike}) if they differ as in real tables.",
    "settle": "Public rows that name their owner (data.strata) or a stated data.heterogeneity would settle it.",
    "answer.right": "For each owner that is right with a probability of {chance}.",
    "answer.right.one": "That is right with a probability of {chance}.",
    "remedy.nobody": "One owner has nobody to train with.",
    "remedy.none": "So do not train together: its own model or the public one, as it is or personalized, serves each owner as "
    "well.",
    "remedy.none.constant": "So do not train together: its own model or a constant serves each owner as well.",
    "remedy.budget": "So do not train together as it is: it would typically pay for {who} with a budget of {epsilon} or more.",
    "remedy.without": "So do not train together as it is: without {who} the others would reach {best}. Ask how it is for them: "
    "copriv forecast --without.",
    "costs": "On everybody's records: {together} above the best possible together, {public} by {public_model}.",
    "costs.recommended": "On everybody's records: {together} above the best possible together by the recommended terms, "
    "{public} by {public_model}.",
    "agreed": "Not as it is agreed: those terms reach {agreed}.",
    "harm": "But {who} would cost the others more than they gain by it: {rest} without them would reach {best}.",
    "harm.one": "But {who} would cost the others more than they gain by it: {rest} alone, with the same privacy, would reach "
    "{best}.",
    "caution.regularizer": "The regularizer makes predictions {shrinkage} worse than they could be: with "
    "model.regularization = {less} or less this may change.",
    "caution.longer": "The pilot counted {share} of all records as longer than any public row: public rows are not like the "
    "owners' records, and no number here holds. Bring public rows like theirs, or plan without (data.public_rows = 0).",
    "caution.declared": "Without public rows the cost lies between {low} and {high} in 90 % of tables that the declared "
    "columns allow; narrower ranges, or public rows, would tell.",
    "caution.rows": "{rows} public rows for {parameters} parameters: the cost lies between {low} and {high}.",
    "caution.unseen": "If one record in {one_in} is an outlier, {times} times as large as any public row, the cost would be "
    "about {cost}, whatever the budget is: public rows cannot show such records. Narrower ranges of columns (data.bounds, "
    "with data.clamp) limit what outliers cost.",
    "caution.unseen.pilot": "A pilot run shows whether there are any.",
    "pilot.agreed": "The pilot, {share} of every epsilon, {settles}.",
    "pilot.settles": "settles about {expected} of {open} open verdicts and costs the model {times} times the error above the "
    "best, before what its answers improve",
    "pilot.settles.one": "settles about {expected} of 1 open verdict and costs the model {times} times the error above the "
    "best, before what its answers improve",
    "pilot.none": "No verdict is open: a pilot would settle none, and is not recommended.",
    "pilot.even": "Even {share} of every epsilon would settle about {expected} of {open} open verdicts: no pilot is "
    "recommended for them.",
    "pilot.even.one": "Even {share} of every epsilon would settle about {expected} of 1 open verdict: no pilot is "
    "recommended for them.",
    "pilot.recommended": "Recommended: pilot = {share}, which {settles}.",
    "pilot.alike": "The pilot, {share} of every epsilon, says where the common model is; owners are alike, and it says "
    "nothing of how they differ.",
    "pilot.sum": "The pilot, {share} of every epsilon, is seen as a sum alone: it says where the common model is, and nothing "
    "of how owners differ.",
    "pilot.lengths": "The pilot, {share} of every epsilon, first measures how long rows are and where targets lie in their "
    "declared ranges; the run is planned by that, and these numbers allow for it.",
    "pilot.lengths.recommended": "With pilot = {share} a first answer would measure how long rows are and where targets lie "
    "in their declared ranges. It pays where ranges are much too wide.",
    "sum": 'With aggregation = "sum" (the learner sees the sum of answers alone) the best terms found reach {reached} '
    "{compared}.",
    "sum.as": "as without",
    "sum.instead": "in place of {seen}",
    "sum.pays": "Joining typically pays for somebody {hidden} with it, and {each} without.",
    "sum.pays.same": "Joining typically pays for somebody {hidden}, with or without it.",
    "sum.pays.nobody": "Joining typically pays for nobody, with or without it.",
    "sum.at": "from budgets of {epsilon}",
    "sum.at.any": "at any budget",
    "sum.at.none": "at no budget",
    "noise": "Noise is {share} of {cost} on average; bounds on gradients, the step and the number of answers leave the rest.",
    "noise.that": "that",
}
"""English texts by key. Those of "answer." say for whom joining pays, those of "caution." what to be careful about, and those
of "pilot" and "sum" what a pilot and a sum of answers would change."""
SHOWN: dict[str, Callable[..., str]] = {
    "percent": percent,
    "range": percent_range,
    "chance": chance_range,
    "names": lambda *names: listed(names, FEW_NAMES),
    "number": plain_number,
    "times": times,
    "count": lambda number: f"{number:,}",
    "word": str,
}
"""How the value of a blank is written, by the kind of value. The pages have the same kinds (`static/join/verdict.js`)."""


@dataclass(frozen=True)
class Said:
    """A sentence, or a part of one."""

    key: str
    """Of its text."""
    values: Mapping[str, "Said | tuple[Any, ...]"] = field(default_factory=dict)
    """For each blank another text, or a kind of value and the value: `("range", 0.01, 0.02)`."""

    def __str__(self) -> str:
        return TEXTS[self.key].format_map(
            {
                blank: str(one) if isinstance(one, Said) else SHOWN[one[0]](*one[1:])
                for blank, one in self.values.items()
            }
        )

    def to_dict(self) -> dict[str, Any]:
        """The sentence for a page, which is sent as JSON."""
        values = {blank: one.to_dict() if isinstance(one, Said) else [*one] for blank, one in self.values.items()}
        return {"key": self.key, "values": values}
