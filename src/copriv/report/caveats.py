"""What a report does not cover: what this one could not check, and what no ledger, run or proof covers."""

from collections.abc import Iterable
from typing import Any

from copriv.report.evidence import LedgerRead

ALWAYS = (
    (
        "How many",
        "How many records or persons there are, which columns were used, their bounds and who took part are public.",
    ),
    (
        "Other ways out",
        "Only what copriv released is counted. A table, a report or a model that the same organisation gave out by other "
        "means adds to it, and so do other owners' answers about the same people, beyond what the agreement takes for "
        "shared.",
    ),
    (
        "Who is in the table",
        "A ledger is tied to an owner's keys and does not know who is in a table. A second ledger about the same people, "
        "under other keys, would not be noticed.",
    ),
    (
        "People who are alike",
        "The guarantee is for one record or one person. What follows from a whole group, such as a family or the staff of "
        "one company, may still be learned, also about somebody who is in no table.",
    ),
    (
        "The machine",
        "Whoever can read the owner's memory, disk or keys can read its records. Nothing here says anything about that.",
    ),
    (
        "Time",
        "Answers leave at times that are fixed beforehand. One that was late because the machine was busy was seen to be late.",
    ),
    (
        "What is not released",
        "A model that the owner personalized at home is made from its records, has no guarantee, and is not counted: it must "
        "not leave.",
    ),
    (
        "The quality of the model",
        "The guarantee does not rest on the learner, the usefulness of the model does. Nothing here says that any owner's "
        "records are what it says they are.",
    ),
)


def not_covered(held: LedgerRead, runs: list[dict[str, Any]]) -> list[dict[str, str]]:
    """List what is not covered, each with a title: first what this report could not check."""
    read = [run for run in runs if run["file"] is not None]
    agreed = [run for run in runs if run["agreement"] is not None]
    without_file = _names(run for run in runs if run["file"] is None)
    without_agreement = _names(run for run in runs if run["agreement"] is None)
    theirs = _names(run for run in agreed if not run["agreement"]["own_copy"])
    summed = _names(run for run in agreed if run["agreement"].get("colluding") is not None)
    certified = _names(run for run in agreed if run["file"] is not None and not run["agreement"]["keys_named"])
    unchecked = (
        (
            not held.against_witness and not held.against_head,
            "An older copy",
            "The ledger was held against nothing from elsewhere (the keys' folder, or a head that was written down), so "
            "this report cannot tell whether it is the newest copy.",
        ),
        (
            held.against_witness and not held.against_head,
            "Ledger and keys set back together",
            "The ledger agrees with its witness beside the keys. A copy of both, put back together, would agree too.",
        ),
        (
            without_file,
            "Who asked",
            f"Of {without_file} the run's file was not given. The ledger does not say who asked, only what was paid and at "
            "which points.",
        ),
        (
            without_agreement,
            "What was promised",
            f"Of {without_agreement} no agreement was given. The ledger says what was paid, not for one record or for one "
            "person, and not with which noise.",
        ),
        (
            theirs,
            "The agreement's text",
            f"The agreement of {theirs} is the one in the run's file. It has the fingerprint that the ledger was charged for, "
            "so it is the one that the owner answered under.",
        ),
        (
            certified,
            "Who the other owners are",
            f"The agreement of {certified} does not name every owner's key. Whoever has its authority's key can have answered "
            "in the name of an owner whose key it does not name.",
        ),
        (
            summed,
            "Owners that work together",
            f"Of {summed} only sums were seen. The guarantee holds against the learner and as many other owners as the "
            "agreement says, if all the others added their shares of the noise. Nobody can check that they did.",
        ),
        (
            read,
            "Answers that are missing",
            "An answer that the owner paid for and the run does not have was lost on its way, or left out by the learner. "
            "What the learner wrote after the last signed answer rests on its word, and so does the error of the model.",
        ),
    )
    listed = (*((title, what) for holds, title, what in unchecked if holds), *ALWAYS)
    return [{"title": title, "what": what} for title, what in listed]


def _names(runs: Iterable[dict[str, Any]]) -> str:
    """List runs, as "run a" or "runs a, b"; "" where there are none."""
    names = [run["run"][:8] for run in runs]
    if not names:
        return ""
    return "run" + "s" * (len(names) > 1) + f" {', '.join(names)}"
