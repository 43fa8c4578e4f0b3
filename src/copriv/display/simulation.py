"""A simulation in sentences and tables."""

from copriv.display.verdict import noise, of_simulation
from copriv.formatting.cards import Card, Table
from copriv.formatting.numbers import counted, percent, percent_range, plain_number
from copriv.rules import named
from copriv.simulation import Simulation
from copriv.simulation.result import OwnerOutcome, RelativeFitness


def card(result: Simulation) -> Card:
    """Card of a simulation, for notebooks and `print`."""
    return Card(f"Simulation: {title(result)}", tuple(details(result)))


def title(result: Simulation) -> str:
    """Describe what was run: rule, queries, runs and seed."""
    queries = f"{int(result.relative_fitness.k[-1]):,} {named(result.rule).counted_in}"
    return f"rule {result.rule}, {queries}, {counted(result.runs, 'run')}, seed {result.seed}"


def details(result: Simulation) -> list[str | Table]:
    """List everything: the records, the verdict, ψ at the end, and each owner's results."""
    own, measured = list[Table | str](), list[str]()
    if any(owner.own is not None for owner in result.owners):
        own += [_own_records(result), f"Loss on own rows: {result.measured_in}."]
    if result.graph is not None:
        psi = result.graph.relative_fitness.mean(axis=0)
        measured.append(
            f"Every owner has a model of its own, and ψ is the mean of theirs: on average over runs {percent(psi.min())} to "
            f"{percent(psi.max())} ({result.owners[int(psi.argmax())].name}). The mean of the models reaches "
            f"{percent(float(result.graph.of_mean.mean()))}. {disagreement(result.graph.spectral_gap)}"
        )
    if result.durations is not None:
        ticks = plain_number(float(result.durations.mean()))
        measured.append(
            f"By the owners' clocks a run takes {ticks} on average, where a clock of rate 1 ticks once in a unit of time."
        )
    if result.clipped > 0:
        measured.append(f"{percent(result.clipped)} of the records' gradients were clipped.")
        measured += filter(None, [noise(result.noise_share, "what the model costs")])
    return [
        result.description,
        question(result),
        of_simulation(result),
        *own,
        ended(result.relative_fitness),
        *measured,
        _owners(result),
        *(f"Note: {note}." for note in notes(result)),
    ]


def question(result: Simulation) -> str:
    """Word the question that the verdict answers, by the agreement's goal, and whether it was judged."""
    if result.goal == "common":
        return 'Asked (goal = "common"): are everybody\'s records predicted better by joining than without?'
    asked = 'Asked (goal = "own"): are an owner\'s own records predicted better by joining than without?'
    if any(owner.own is not None for owner in result.owners):
        return (
            f"{asked} Judged on its records, each fifth of them held out in turn from models that are made at home; what "
            "they had to do with the common model is taken away by a step of Newton's method."
        )
    if result.source == "public":
        why = "the owners' own tables are not here (data.path names them). copriv forecast says what to expect."
        return f"{asked} Not judged: {why}"
    return (
        f"{asked} Not judged here: --own-records (own_records=True) does, each fifth of its records held out in turn."
    )


def fitness_card(ψ: RelativeFitness) -> Card:
    """Card of ψ at the end of runs."""
    iterations = f"{len(ψ.k):,} iterations up to {int(ψ.k[-1]):,}"
    return Card(f"RelativeFitness: {counted(len(ψ.runs), 'run')}, {iterations}", (ended(ψ),))


def ended(ψ: RelativeFitness) -> str:
    """Describe the distribution of ψ at the end of runs."""
    end = ψ.final
    spread = f"25-75 % of runs: {percent_range(end['p25'], end['p75'])}; mean {percent(end['mean'])}"
    return f"At the end: {percent(end['median'])} above the best (median; {spread})."


def disagreement(spectral_gap: float) -> str:
    """Word the spectral gap of a graph."""
    gap = f"spectral gap {plain_number(spectral_gap)}"
    if spectral_gap > 1 - 1e-9:
        return f"Each round ends all disagreement between owners ({gap})."
    return f"Each round ends at least {percent(spectral_gap)} of the owners' disagreement ({gap})."


def notes(result: Simulation) -> list[str]:
    """List what every output must say: that the result is not private, and that records are drawn or simulated."""
    of_source = {
        "resampled": "the records are resampled: drawn with replacement from fewer real ones",
        "simulated": "the records are simulated, not real",
        "public": "the records are public rows that stand in for the owners' own",
    }
    return [*result.warnings, *filter(None, [of_source.get(result.source)])]


def _owners(result: Simulation) -> Table:
    def cells(owner: OwnerOutcome) -> tuple[str, ...]:
        alone = "" if owner.alone is None else percent(owner.alone)
        answers, noise = f"{owner.answers:,}", plain_number(owner.noise_scale)
        return owner.name, f"{owner.records:,}", plain_number(owner.epsilon), answers, noise, alone

    head = ("owner", "records", "epsilon", "answers", "noise scale", "alone, above the best")
    return Table.of(head, result.owners, cells, "owners")


def _own_records(result: Simulation) -> Table:
    """Make a table of each model's loss on an owner's held-out records, and whether joining pays."""

    def cells(owner: OwnerOutcome) -> tuple[str, ...]:
        own = owner.own
        if own is None:
            return owner.name, *("-",) * 8
        said = own.verdict
        losses = (own.alone, own.public, own.public_personalized, own.together, own.personalized)
        models = ("-" if loss is None else plain_number(loss) for loss in losses)
        pays = f"{said.answer}, {100 * said.probability:.0f} %"
        return owner.name, f"{own.held_out:,}", *models, pays, percent(round(said.gain, 4))

    models = ("own model", "public rows'", "public at home", "common", "common at home")
    head = ("loss on own rows", "held out", *models, "pays, probability", "better by")
    return Table.of(head, result.owners, cells, "owners")
