"""Checks of agreements in which the learner sees only sums of answers (`aggregation = "sum"`)."""

from copriv.errors import AgreementError
from copriv.mechanisms import Mechanism
from copriv.mechanisms.mechanism import but_for
from copriv.terms import AgreedTerms

IN_SUMS = ("aggregation", "colluding", "dropouts", "attempts")
"""Keys of [agreement] for sums of answers."""


def check_sums(agreed: AgreedTerms, mechanism: Mechanism, members: tuple[tuple[int, ...], ...]) -> None:
    """Raise AgreementError, naming the field, for sums that cannot be kept, and for their keys without sums.

    members: owners of each participant, by their indices, where sums are seen; empty where the rule is still to be planned.
    """
    terms, t, N = agreed.agreement, agreed.colluding, agreed.n_owners
    if not agreed.summed:
        given = [f"agreement.{key}" for key in IN_SUMS[1:] if getattr(terms, key) is not None]
        given += ["owner.floor" for table in agreed.owner_tables if table.floor is not None]
        if given:
            raise AgreementError(f'{given[0]}: is for sums of answers alone; set aggregation = "sum", or leave it out')
        return
    if mechanism.why_not_summed:
        raise AgreementError(
            f'agreement.aggregation: with mechanism "{mechanism.name}" there is no sum, since {mechanism.why_not_summed}; '
            'choose "statistics", "moments", "laplace", "laplace-composed" or "gaussian", or aggregation = "each"'
        )
    d, least, smallest = agreed.dropouts, agreed.fewest_in_sum, min(map(len, members), default=N)
    if t + 2 > N:
        raise AgreementError(
            f"agreement.colluding: with {t} of {N} owners on the learner's side, a sum is of fewer than two others; it "
            f"needs at least {t + 2} owners, so set colluding to at most N - 2 = {N - 2}"
        )
    if least > N:
        raise AgreementError(
            f"agreement.dropouts: with {d} of {N} owners missing and {t} on its side, the learner could have two sums "
            f"of one noise, and subtract them; that takes more than t + 2d = {t + 2 * d} owners, so set dropouts to at most "
            f"(N - t - 1)/2 = {(N - t - 1) // 2} (and attempts, for sums that have to be tried again)"
        )
    if smallest < least:
        raise AgreementError(
            f"agreement.aggregation: rule {terms.rule} has {smallest} owner(s) answer at a time, and a sum of so few hides "
            f"no answer from the learner with {t} colluding owner(s){but_for(d)}; choose rule S1 or S2, in which all answer "
            f"together, or put at least {least} owners in each group (group_size, owner.group)"
        )
    if agreed.attempts >= agreed.answers:
        raise AgreementError(
            f"agreement.attempts: {agreed.attempts} of {agreed.answers} answers are kept for further attempts, which leaves "
            "none for the run; give fewer attempts, or more answers"
        )
    for table in agreed.owner_tables:
        if table.weight == 0:
            raise AgreementError(
                f"owner.weight: {table.name} has weight 0, so its answers would add nothing but noise to a sum; name only "
                "owners whose answers count"
            )
        if table.overlap > 1 and table.delta > 0:
            raise AgreementError(
                f"owner.overlap: {table.name} shares records with others and offers a delta; in a sum several owners' "
                "changes meet one noise, and their (epsilon, delta) do not add up; with overlap choose pure epsilon (delta = 0)"
            )
        if table.floor is not None and table.floor < table.epsilon:
            raise AgreementError(
                f"owner.floor: {table.name} asks for {table.floor:g} if all others work together, less than its epsilon "
                f"{table.epsilon:g}; such an owner's noise would be its own: set epsilon = {table.floor:g} and no floor, or "
                "a floor above epsilon"
            )


def check_keys_named(agreed: AgreedTerms) -> None:
    """Raise AgreementError where the agreement names no key for one of the owners, which sums need.

    Without it whoever holds the authority's key could take part as all owners but one, and see the answer of that one.
    """
    unnamed = [name for name in agreed.owner_names if name not in agreed.owner_keys]
    if unnamed:
        raise AgreementError(
            f"owner.key: the agreement names no key of {unnamed[0]}, so that somebody else could take part as {unnamed[0]} and "
            "learn of the others' answers in a sum; name every owner's key (copriv owner keys, and copriv init --network "
            "with --request)"
        )
