"""Would `owner serve` begin? Keys, policy and ledger, looked at as it looks at them; nothing is charged or written."""

from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

from copriv.agreement import Agreement
from copriv.cli.commands.party_options import party_keys
from copriv.errors import CoprivError
from copriv.privacy.ledger.read import verify


@dataclass
class Readiness:
    """What is as it should be, in words, and every problem."""

    seen: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def readiness(
    agreement: Agreement,
    name: str,
    columns: tuple[str, ...],
    *,
    keys: Path | None,
    policy: Path | None,
    ledger: Path | None,
    witness: Path | None = None,
) -> Readiness:
    """Of one owner, as far as its files are given; `columns` are those that its table is read by."""
    from copriv.network.policy import Policy

    found, rules = Readiness(), Policy()
    if keys is not None:
        try:
            own = party_keys(keys, "owner", name)
            own.check_agreed(agreement.owner_keys.get(name))
            found.seen.append(f"keys {keys}: those of {own.name}, certificate {own.fingerprint[:16]}…")
        except CoprivError as error:
            found.problems.append(str(error))
    inside = None if keys is None else keys / "policy.toml"
    file = inside if policy is None and inside is not None and inside.is_file() else policy
    if file is not None:
        try:
            rules = Policy.load(file)
            rules.check(agreement, name, columns)
            found.seen.append(f"policy {file}: allows this agreement")
        except CoprivError as error:
            found.problems.append(str(error))
    if ledger is not None:
        try:
            _budget(agreement, name, ledger, keys or witness, rules.lifetime(agreement, name), found)
        except CoprivError as error:
            found.problems.append(str(error))
    return found


def _budget(
    agreement: Agreement, name: str, ledger: Path, witness: Path | None, lifetime: tuple[float, float], found: Readiness
) -> None:
    totals = verify(ledger, None, witness)
    if totals.owner != name:
        found.problems.append(f"{ledger}: is the ledger of {totals.owner}, not of {name}; give its own")
        return
    terms = agreement.owner[agreement.owner_names.index(name)]
    ε, δ = map(Fraction, lifetime)
    said = f"{ledger}: {float(totals.committed):.6g} of {float(ε):.6g} spent"
    if any(run.fingerprint == agreement.fingerprint and run.charged < run.cap for run in totals.runs.values()):
        found.seen.append(f"{said}; a run of this agreement is under way, and goes on")
    elif totals.committed + Fraction(terms.epsilon) > ε or totals.spent_delta + Fraction(terms.delta) > δ:
        found.problems.append(
            f"{said}, and a run of this agreement takes {terms.epsilon:g}: it would be refused; raise "
            "policy.lifetime_epsilon only if you mean it"
        )
    else:
        found.seen.append(f"{said}, enough for a run")
