"""An owner's limits on the agreements that it answers under: a TOML file that the owner's data officer writes.

    [policy]
    learner = "learner"                  # the name on the learner's certificate
    certificates = ["5f2c…"]             # SHA-256 of the certificates that may be the learner; none: any of that name
    agreements = ["9b1d…"]               # fingerprints of the agreements to answer under; none: any that passes below
    rules = ["A2"]                       # none given: any
    losses = ["squared", "logistic"]     # none given: any
    mechanisms = ["laplace"]             # none given: any
    features = ["age", "income"]         # columns that may be used; none given: any
    highest_epsilon = 1.0                # of one run
    lifetime_epsilon = 2.0               # over all runs on this data; default: that of the agreement
    highest_delta = 1e-6                 # of one run; 0 where highest_epsilon is given and this is not
    lifetime_delta = 2e-6                # over all runs; 0 where lifetime_epsilon is given and this is not
    least_records = 1000                 # answer on no fewer
    most_runs = 20                       # that the learner may come with, since the owner's command was started
    hours = "08:00-18:00"                # local time; default: always

Without a file any agreement is allowed, for one run: the lifetime budget is then the agreement's ε.
"""

import re
import tomllib
from datetime import datetime, time
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from copriv import losses, mechanisms, rules
from copriv.agreement import Agreement
from copriv.errors import AgreementError
from copriv.formatting.sanitize import printable, reason
from copriv.terms.explain import problems_of

_Names = Annotated[tuple[str, ...], Field(strict=False)]  # a list in TOML
_Epsilon = Annotated[float, Field(gt=0, allow_inf_nan=False)]
_Delta = Annotated[float, Field(ge=0, lt=1)]
_KNOWN = {
    "rules": [rule.name for rule in rules.ALL],
    "losses": [loss.name for loss in losses.ALL],
    "mechanisms": [mechanism.name for mechanism in mechanisms.ALL],
}
_SHA256 = "[0-9a-f]{64}"
_TIME = r"([01]\d|2[0-3]):[0-5]\d"


class PolicyRefused(AgreementError):
    """The agreement asks for what this owner's policy does not allow."""


class Policy(BaseModel):
    """An owner's own limits. Raises PolicyRefused where an agreement goes beyond them."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    learner: Annotated[str, Field(min_length=1)] = "learner"
    certificates: _Names = ()
    agreements: _Names = ()
    rules: _Names = ()
    losses: _Names = ()
    mechanisms: _Names = ()
    features: _Names = ()
    highest_epsilon: _Epsilon | None = None
    lifetime_epsilon: _Epsilon | None = None
    highest_delta: _Delta | None = None
    lifetime_delta: _Delta | None = None
    least_records: Annotated[int, Field(ge=1)] = 1
    most_runs: Annotated[int, Field(ge=1)] = 20
    hours: str | None = None

    @field_validator("certificates", "agreements", "rules", "losses", "mechanisms", "features")
    @classmethod
    def _can_be_met(cls, value: _Names, field: Any) -> _Names:
        """Refuse an empty list, and a name that no agreement or certificate can have, which would allow nothing."""
        if not value:
            raise ValueError("an empty list would allow nothing; leave the key out to allow whatever is agreed")
        known = _KNOWN.get(field.field_name, [])
        for name in () if field.field_name == "features" else value:
            if known and name not in known:
                raise ValueError(f"{name!r} is not known; known are {', '.join(known)}")
            if not known and not re.fullmatch(_SHA256, name):
                raise ValueError(f"{printable(name, 80)!r} is no SHA-256")
        return value

    @field_validator("hours")
    @classmethod
    def _two_times(cls, value: str | None) -> str | None:
        if value is not None and not re.fullmatch(rf"{_TIME}-{_TIME}", value):
            raise ValueError(f"{value!r} is not from one time to another")
        if value is not None and value[:5] == value[6:]:
            raise ValueError(f"{value!r} begins and ends at the same time; leave the key out to answer always")
        return value

    @field_validator("highest_epsilon", "lifetime_epsilon", "highest_delta", "lifetime_delta", mode="before")
    @classmethod
    def _whole_numbers(cls, value: Any) -> Any:
        if isinstance(value, int) and not isinstance(value, bool):
            return float(value)
        return value

    @classmethod
    def load(cls, path: str | Path) -> "Policy":
        """Read a policy file. Raises PolicyRefused, naming the key, for one that cannot be understood."""
        try:
            document = tomllib.loads(Path(path).read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise PolicyRefused(f"{path}: cannot read the policy ({reason(error)}); give a TOML file") from None
        if set(document) != {"policy"} or not isinstance(document["policy"], dict):
            raise PolicyRefused(f"{path}: a policy file has one table, [policy]; write it above its keys")
        try:
            return cls.model_validate(document["policy"])
        except ValidationError as error:
            found = [{**one, "loc": ("policy", *one["loc"])} for one in error.errors()]
            raise PolicyRefused(f"{path}: {'; '.join(problems_of(found, document, {'policy': cls}))}") from None

    def lifetime(self, agreement: Agreement, owner: str) -> tuple[float, float]:
        """The owner's budget over all runs on its data: ε and δ."""
        terms, ε, δ = agreement.terms_of(owner), self.lifetime_epsilon, self.lifetime_delta
        if ε is None:
            return terms.epsilon, terms.delta if δ is None else δ
        return ε, δ or 0.0  # a policy that limits ε alone allows no δ

    def check(self, agreement: Agreement, owner: str, columns: tuple[str, ...]) -> None:
        """Raise PolicyRefused where the agreement goes beyond this policy. `columns`: those that the features use."""
        terms, said = agreement.terms_of(owner), agreement.agreement
        lists: tuple[tuple[str, _Names, tuple[str, ...]], ...] = (
            ("agreements", self.agreements, (agreement.fingerprint,)),
            ("rules", self.rules, (said.rule,)),
            ("losses", self.losses, (agreement.model.loss,)),
            ("mechanisms", self.mechanisms, tuple(one.agreement.mechanism for one in agreement.phases)),
            ("features", self.features, columns),
        )
        for key, allowed, asked in lists:
            beyond = [name for name in asked if name not in allowed]
            if allowed and beyond:
                raise PolicyRefused(
                    f"policy.{key}: {beyond[0]!r} is not allowed here; allowed are {', '.join(allowed)}; agree on "
                    "one of them, or ask the data officer"
                )
        if self.highest_epsilon is not None and terms.epsilon > self.highest_epsilon:
            raise PolicyRefused(
                f"policy.highest_epsilon: the agreement takes epsilon {terms.epsilon:g} from {owner}, at most "
                f"{self.highest_epsilon:g} is allowed; agree on less, or ask the data officer"
            )
        if self.lifetime_epsilon is not None and terms.epsilon > self.lifetime_epsilon:
            raise PolicyRefused(
                f"policy.lifetime_epsilon: one run takes {terms.epsilon:g}, more than the {self.lifetime_epsilon:g} "
                "of all runs; agree on less, or ask the data officer"
            )
        highest = self.highest_delta
        if highest is None:
            highest = float(self.highest_epsilon is None)  # a policy that limits ε alone allows no δ
        for key, most_delta in (("highest_delta", highest), ("lifetime_delta", self.lifetime(agreement, owner)[1])):
            if terms.delta > most_delta:
                raise PolicyRefused(
                    f"policy.{key}: the agreement takes delta {terms.delta:g} from {owner}, at most {most_delta:g} is "
                    "allowed; agree on a mechanism of pure epsilon, or ask the data officer"
                )
        if terms.records < self.least_records:
            raise PolicyRefused(
                f"policy.least_records: {owner} holds {terms.records}; it answers on no fewer than {self.least_records}; ask "
                "the data officer"
            )

    def open_at(self, now: datetime) -> bool:
        """Whether queries are answered at this local time; the hours may extend over midnight."""
        if self.hours is None:
            return True
        first, last = (time.fromisoformat(part) for part in self.hours.split("-"))
        if first > last:
            return not last <= now.time() < first
        return first <= now.time() < last
