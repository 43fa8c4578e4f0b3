"""A simulation in sentences and tables."""

from copriv.display.verdict import of_simulation
from copriv.formatting.cards import Card, Table
from copriv.formatting.numbers import counted, percent, percent_range, plain_number
from copriv.rules import named
from copriv.simulation import Simulation
from copriv.simulation.result import OwnerOutcome, RelativeFitness


def card(result: Simulation) -> Card:
    """All that is said of it, in a notebook."""
    return Card(f"Simulation: {title(result)}", tuple(details(result)))


def title(result: Simulation) -> str:
    """What was run."""
    queries = f"{int(result.relative_fitness.k[-1]):,} {named(result.rule).counted_in}"
    return f"rule {result.rule}, {queries}, {counted(result.runs, 'run')}, seed {result.seed}"


def details(result: Simulation) -> list[str | Table]:
    """On which records it was run, the verdict, where runs ended, and what each owner has."""
    clipped = f"{percent(result.clipped)} of the records' gradients were clipped."
    return [
        result.description,
        of_simulation(result),
        ended(result.relative_fitness),
        *([clipped] if result.clipped > 0 else []),
        _owners(result),
        *(f"Note: {note}." for note in notes(result)),
        *([_own_records(result)] if any(owner.own is not None for owner in result.owners) else []),
    ]


def fitness_card(ψ: RelativeFitness) -> Card:
    """Where runs ended."""
    iterations = f"{len(ψ.k):,} iterations up to {int(ψ.k[-1]):,}"
    return Card(f"RelativeFitness: {counted(len(ψ.runs), 'run')}, {iterations}", (ended(ψ),))


def ended(ψ: RelativeFitness) -> str:
    """Where runs ended, in a sentence."""
    end = ψ.final
    spread = f"25-75 % of runs: {percent_range(end['p25'], end['p75'])}; mean {percent(end['mean'])}"
    return f"At the end: {percent(end['median'])} above the best (median; {spread})."


def notes(result: Simulation) -> list[str]:
    """What every output must say: that it is no private result, and which records were drawn or made up."""
    of_source = {
        "resampled": "the records are resampled: drawn with replacement from fewer real ones",
        "simulated": "the records are simulated, not real",
    }
    return [*result.warnings, *([of_source[result.source]] if result.source in of_source else [])]


def _owners(result: Simulation) -> Table:
    def cells(owner: OwnerOutcome) -> tuple[str, ...]:
        alone = "" if owner.alone is None else percent(owner.alone)
        answers, noise = f"{owner.answers:,}", plain_number(owner.noise_scale)
        return owner.name, f"{owner.records:,}", plain_number(owner.epsilon), answers, noise, alone

    head = ("owner", "records", "epsilon", "answers", "noise scale", "alone, above the best")
    return Table.of(head, result.owners, cells, "owners")


def _own_records(result: Simulation) -> Table:
    """Loss on records of its own that an owner held out, for each of the three models that it may use."""
    return Table.of(
        ("on its own held-out records", "rows", "its own model", "the common one", "personalized at home"),
        [(owner.name, owner.own) for owner in result.owners if owner.own is not None],
        lambda one: (
            one[0],
            f"{one[1].held_out:,}",
            *map(plain_number, (one[1].alone, one[1].together, one[1].personalized)),
        ),
        "owners",
    )
