"""The agreement: the one document that all parties sign up to, before any private record is touched.

It is a TOML file with the tables [agreement], [model], [data] and one [[owner]] for each data owner (`copriv.terms`). This
module reads it, checks that its rule, mechanism and loss are known, and computes its fingerprint.

An agreement with a pilot has two phases, `Agreement.phases`: one private answer of each owner, then the run that is planned by
them. Both are ordinary agreements, whose shares of ε and δ are fixed before the first; together they spend each owner's ε at
most (docs/proofs/phases.md).
"""

import hashlib
import json
import os
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from fractions import Fraction
from functools import cached_property
from math import sqrt
from pathlib import Path
from typing import Any, Literal

from jaxtyping import Float
from pydantic import ValidationError, model_validator

from copriv import losses, mechanisms, rules
from copriv.agreement.phases import check_pilot, documents_of, within
from copriv.agreement.sums import IN_SUMS, check_sums
from copriv.errors import AgreementError
from copriv.formatting.cards import Card, Columns, Framed, Shown, Table, in_short
from copriv.formatting.numbers import counted
from copriv.formatting.sanitize import printable, reason
from copriv.mechanisms import Mechanism
from copriv.mechanisms.lengths import share_heard
from copriv.rules.graph import Graph
from copriv.terms import AgreedTerms, OwnerTerms
from copriv.terms.explain import problems_of, unknown_names
from copriv.types import Array, LinearLoss

WORTHWHILE = 0.005
"""Least relative decrease of the prediction error for which joining pays, where the agreement names none."""
_LOOKUPS = {
    ("agreement", "rule"): rules.named,
    ("agreement", "mechanism"): mechanisms.named,
    ("model", "loss"): losses.known,
}
"""(table, key) → function that raises AgreementError for an unknown name."""
_SURROGATES = re.compile(r"\\ud[89ab]..\\ud[c-f]..")


class Agreement(Shown, Framed, AgreedTerms):
    """The agreement of all parties. `Agreement.load(path)` reads one; every agreement is checked when it is made.

    >>> agreement.owner_names
    ('north', 'south', 'west')
    >>> copriv.Agreement.of(agreement.to_dict()).fingerprint == agreement.fingerprint
    True
    >>> agreement.replace(owner={"epsilon": 2.0}).owner[0].epsilon
    2.0
    """

    @model_validator(mode="after")
    def _can_be_kept(self) -> "Agreement":
        try:
            losses.known(self.model.loss)
        except AgreementError as error:
            raise ValueError(f"model.loss: {error}") from None
        if self.agreement.rule != "auto":
            rules.named(self.agreement.rule)
        in_rounds = not self.one_answer and (self.agreement.rule == "auto" or self.synchronous)
        for key in ("robust", "graph"):
            if getattr(self.agreement, key) is not None and not in_rounds:
                raise ValueError(
                    f"agreement.{key}: is for rules by which all owners answer each round, with gradients; name S1 or S2, or "
                    f'"auto", or leave {key} out'
                )
        self.mechanism.check(self)
        check_sums(self, self.mechanism, self.members if self.summed and self.agreement.rule != "auto" else ())
        if self.agreement.graph is not None:
            Graph.of(self)
        if self.has_pilot:
            check_pilot(self)
            _ = self.phases
        return self

    @classmethod
    def load(cls, path: str | Path) -> "Agreement":
        """Read and check a TOML file. Raises AgreementError, on one line, with the field path and what to do."""
        try:
            # Without a wait for a pipe that nobody writes to.
            descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
            with open(descriptor, "rb") as file:  # noqa: PTH123 (a descriptor has no path)
                if hasattr(os, "O_NONBLOCK"):
                    os.set_blocking(descriptor, True)
                content = file.read(200_000_001)
            if len(content) > 200_000_000:  # twice the bytes of an agreement with a million owners
                raise ValueError("it is larger than 200 MB")
            text = content.decode("utf-8").replace("\r\n", "\n")
        except UnicodeDecodeError:
            raise AgreementError(
                f"{path}: is no text, so no agreement; give the path of a TOML file, in UTF-8"
            ) from None
        except (OSError, ValueError) as error:
            raise AgreementError(
                f"{path}: cannot read the agreement ({reason(error)}); give the path of a TOML file"
            ) from None
        try:
            return cls.of(tomllib.loads(text))
        except AgreementError as error:
            with_path = AgreementError(f"{path}: {error}")
            with_path.problems = error.problems
            raise with_path from None
        except ValueError as error:  # invalid TOML, or a number with more digits than Python reads
            raise AgreementError(f"{path}: not valid TOML: {error}; correct it, or give another file") from None
        except RecursionError:
            raise AgreementError(f"{path}: its brackets are nested too deeply for an agreement") from None

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> "Agreement":
        """Check a mapping of the file's shape. Raises AgreementError as `load` does."""
        if not isinstance(document, Mapping):
            raise AgreementError(
                f"an agreement is a mapping of tables, not {type(document).__name__}; Agreement.load reads a file"
            )
        try:
            return cls.model_validate(document)
        except ValidationError as error:
            found = problems_of(error.errors(), document)
            known = _LOOKUPS if error.errors()[0]["loc"] else {}
            raise AgreementError.of([*found, *unknown_names(document, known)]) from None

    @classmethod
    def given(cls, agreement: "Agreement | str | Path | Mapping[str, Any]") -> "Agreement":
        """Return an agreement that is given as such, as the path of its file, or as a mapping of the file's shape.

        Raises AgreementError as `load` and `of` do.
        """
        if isinstance(agreement, Agreement):
            return agreement
        if isinstance(agreement, str | Path):
            return cls.load(agreement)
        return cls.of(agreement)

    def each_seen(self) -> "Agreement":
        """These terms with each answer seen instead of sums, and the number of answers of a run; self where each is seen."""
        if not self.summed:
            return self
        document = self.with_owners()
        for key in IN_SUMS:
            document["agreement"].pop(key, None)
        if self.attempts:
            document["agreement"]["answers"] = self.answers - self.attempts
        document["owner"] = [
            owner if owner.floor is None else owner.model_copy(update={"floor": None}) for owner in self.owner_tables
        ]
        return Agreement.of(document)

    def in_sums(self) -> "Agreement | None":
        """These terms with only the sum of answers seen; None where that holds already or is not possible."""
        if not self.summed:
            with suppress(AgreementError):
                return self.replace(agreement={"aggregation": "sum"})
        return None

    def central(self) -> "Agreement":
        """These terms with one learner in place of a graph; self where there is no graph."""
        if self.agreement.graph is None:
            return self
        return self.replace(agreement=dict.fromkeys(("graph", "relays", "mixing", "tracking")))

    def replace(self, **changes: Any) -> "Agreement":
        """Return a copy with some terms changed, checked again: `replace(agreement={"step": 3.0}, model={...})`.

        `owner` takes the whole list of tables, or one mapping that is applied to every table.
        """
        document = self.with_owners()
        for table, values in changes.items():
            if table == "owner" and isinstance(values, dict):
                document["owner"] = [owner.with_terms(values) for owner in self.owner_tables]
            elif table == "owner":
                document["owner"] = list(values)
            else:
                document[table] = {**document[table], **values}
        return Agreement.of(document)

    def to_dict(self) -> dict[str, Any]:
        """Return the mapping that `of` reads, without keys that are None, which TOML does not have."""
        return self.model_dump(mode="python", exclude_none=True, by_alias=True)

    def with_owners(self) -> dict[str, Any]:
        """Return the same with owner tables as they are, frozen and checked, which `of` does not check again."""
        tables = self.model_dump(mode="python", exclude_none=True, exclude={"owner_tables"})
        return {**tables, "owner": self.owner_tables}

    def to_toml(self) -> str:
        """Return the text of a file that `load` reads back with the same fingerprint."""
        return "\n".join("\n".join([head, *table.values(), ""]) for head, table in self.lines(self.to_dict()))

    @staticmethod
    def lines(document: Mapping[str, Any]) -> list[tuple[str, dict[str, str]]]:
        """Return the tables of such a file: the header of each, and the line of each key."""
        tables = [(f"[{name}]", document[name]) for name in ("agreement", "model", "data")]
        tables += [("[[owner]]", owner) for owner in document["owner"]]
        return [(head, {key: f"{key} = {_toml(value)}" for key, value in table.items()}) for head, table in tables]

    def _card(self) -> Card:
        terms, model, data = self.agreement, self.model, self.data
        n, records = self.n_owners, sum(table.records * table.number for table in self.owner_tables)
        source = data.dataset or "none named"

        def cells(table: OwnerTerms) -> tuple[str, ...]:
            name = table.name + f" (each of {table.number:,})" * (table.number > 1)
            return name, f"{table.records:,}", f"{table.epsilon:g}", f"{table.delta:g}"

        return Card(
            f"Agreement {terms.name!r}: {counted(n, 'owner')}, {records:,} records",
            (
                f"Rule: {self.rule_in_words}; horizon {terms.horizon:,}; mechanism: {terms.mechanism}.",
                *self._phases_in_words,
                f"Loss: {model.loss}, gradients bounded at {in_short(model.gradient_bound)}; data: {source}.",
                f"Fingerprint: {self.fingerprint}",
                Table.of(("owner", "records", "epsilon", "delta"), self.owner_tables, cells, "owners"),
            ),
        )

    def _frames(self) -> Mapping[str, Callable[[], Columns]]:
        tables = [table.model_dump() for table in self.owner_tables]
        return {"owners": lambda: {name: [table[name] for table in tables] for name in tables[0]}}

    @property
    def _phases_in_words(self) -> tuple[str, ...]:
        if not self.has_pilot:
            return ()
        return (
            f"Phases: pilot at {100 * self.pilot_share:.3g} % of every owner's epsilon, one answer; then the run at the rest, "
            "and all of delta.",
        )

    @property
    def pilot_share(self) -> float:
        """Share of every owner's ε that the pilot spends; 0 without a pilot."""
        share = self.agreement.pilot or 0.0
        if share != "auto":
            return share
        return share_heard(self) if self.data.declared_only else 0.1

    @property
    def has_pilot(self) -> bool:
        """Whether a pilot comes before the run."""
        return self.pilot_share > 0

    @property
    def phases(self) -> "tuple[Agreement, ...]":
        """The agreements of the pilot and of the run after it; without a pilot, of the run alone.

        Together they spend each owner's ε at most, and the run has all of δ.

        >>> first, run = agreement.replace(agreement={"pilot": 0.25}).phases
        >>> first.agreement.mechanism, first.answers, first.owner[0].epsilon + run.owner[0].epsilon
        ('pilot', 1, 1.0)
        """
        if self.has_pilot:
            return tuple(map(Agreement.of, documents_of(self, self.pilot_share)))
        if self.agreement.pilot is None:
            return (self,)
        return (self.replace(agreement={"pilot": None}),)

    def chosen_run(self, chosen: Mapping[str, Any]) -> "Agreement":
        """The agreement of the run after the pilot, with the terms that its answers chose, by key.

        Raises AgreementError where one was not left open before the pilot, or is out of its range (`ranges`).

        >>> left_open = agreement.replace(agreement={"pilot": 0.25, "ranges": {"step": [0.01, 10.0]}})
        >>> left_open.chosen_run({"step": 0.5}).step
        0.5
        """
        return self.phases[-1].replace(**within(self, chosen))

    def spent_after(self, owner: str, answers: Sequence[int]) -> tuple[Fraction, Fraction]:
        """ε and δ that an owner has spent once so many answers are charged in each phase that has begun."""
        each = [
            phase.mechanism.spent_after(phase, phase.terms_of(owner), given)
            for phase, given in zip(self.phases, answers, strict=False)
        ]
        return sum((ε for ε, _ in each), Fraction(0)), sum((δ for _, δ in each), Fraction(0))

    def phases_in_numbers(self) -> "tuple[Agreement, ...]":
        """The phases with a number for each term; for a term that the pilot chooses, the geometric middle of its range.

        Raises AgreementError for a pilot whose terms are not fixed.
        """
        if not self.has_pilot:
            return self.phases
        if self.agreement.pilot_terms is None or self.agreement.rule == "auto":
            raise AgreementError(
                "agreement.pilot_terms: what the pilot is asked at, and the rule after it, are to be signed before it; copriv "
                "forecast --out DIR makes them of the public rows"
            )
        ranges = self.agreement.ranges or {}
        middle = {key: sqrt(low * high) for key, (low, high) in ranges.items() if key in ("step", "gradient_bound")}
        return self.phases[0], self.chosen_run(middle)

    def check_one_phase(self) -> None:
        """Raise AgreementError where a pilot comes before the run."""
        if self.has_pilot:
            raise AgreementError(
                "agreement.pilot: a pilot and the run after it are two phases, and one is carried out at a time: give one of "
                "Agreement.phases, or leave the key out. The command copriv simulate carries out both; in Python simulate what "
                "follows a pilot: copriv.pilot(agreement).recommended.agreement"
            )

    @property
    def goal(self) -> Literal["own", "common"]:
        """Records that the verdict of a forecast is about: each owner's own, or all owners' (common)."""
        return self.agreement.goal or "own"

    @property
    def worthwhile(self) -> float:
        """Least relative decrease of the prediction error for which joining pays."""
        return WORTHWHILE if self.agreement.worthwhile is None else self.agreement.worthwhile

    @property
    def error_in_words(self) -> str:
        """Name of the prediction error, with its unit where the loss is squared, such as "mean squared error in rate²"."""
        if self.model.loss != losses.Squared.name:
            return f"mean {self.model.loss} loss"
        return "mean squared error" + (f" in {printable(self.data.target, 20)}²" if self.data.target else "")

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the canonical JSON (sorted keys, shortest exact numbers), which every message and ledger line contains."""
        canonical = json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":"), allow_nan=False)
        return hashlib.sha256(canonical.encode()).hexdigest()

    @property
    def synchronous(self) -> bool:
        """Whether every owner answers every round."""
        return self.agreement.rule != "auto" and rules.named(self.agreement.rule).together

    @property
    def one_answer(self) -> bool:
        """Whether each owner answers one query, at the agreed start, and the learner then computes the model."""
        return self.mechanism.one_answer

    @cached_property
    def members(self) -> tuple[tuple[int, ...], ...]:
        """Indices of the owners of each participant: all together, an agreed group, or an owner by itself.

        Where owners answer once, each is a participant by itself, or all are one whose sum is seen, whatever the rule. A size
        of groups that is still "auto" counts as none.
        """
        if self.one_answer:
            return self.members_of(True, None) if self.summed else tuple((i,) for i in range(self.n_owners))
        return self.members_of(self.synchronous, self.agreement.group_size)

    def answers_with(self, owner: str) -> tuple[int, ...]:
        """Indices of the owners that answer together with this one, itself included."""
        index = self.owner_names.index(owner)
        return next(group for group in self.members if index in group)

    def members_of(self, together: bool, size: int | str | None) -> tuple[tuple[int, ...], ...]:
        """As `members`, for owners that answer all together, or else in groups of about this size."""
        if together:
            return (tuple(range(self.n_owners)),)
        groups: dict[object, list[int]] = {}
        named = [table.group for table in self.owner_tables for _ in range(table.number)]
        ungrouped = [i for i, group in enumerate(named) if not group]
        number = -(-len(ungrouped) // (size if isinstance(size, int) else 1))  # sizes differ by one at most
        group_of = {i: k * number // len(ungrouped) for k, i in enumerate(ungrouped)}
        for i, group in enumerate(named):
            groups.setdefault(group or group_of[i], []).append(i)
        return tuple(map(tuple, groups.values()))

    def aggregation(self, group: Sequence[int]) -> rules.Aggregation:
        """Aggregation of the answers of these owners to one vector."""
        members = list(group)
        if not self.summed:
            return rules.Aggregation(self.weights[members])
        return rules.SharedSum(self.weights[members], self.uncounted, self._floors[members])

    @property
    def mechanism(self) -> Mechanism:
        """The mechanism of the owners' answers."""
        return mechanisms.named(self.agreement.mechanism)

    def noise_scales(self, feature_bound: float | None = None) -> Float[Array, " owners"]:
        """Scale of every owner's noise. feature_bound: B, where the agreement gives no number.

        Where only a sum is seen, the scale of independent noise on each answer that has the same variance in the sum.
        """
        alone = self.scales_alone(feature_bound)
        if not self.summed:
            return alone
        for group in self.members:
            summed = self.aggregation(group)
            assert isinstance(summed, rules.SharedSum)
            alone[list(group)] = summed.by_owner(alone[list(group)])
        return alone

    def scales_alone(self, feature_bound: float | None = None) -> Float[Array, " owners"]:
        """Scale of the noise that every owner's answer needs by itself."""
        return self.by_owner([self.mechanism.scale(self, owner, feature_bound) for owner in self.owner_tables])

    @cached_property
    def _floors(self) -> Float[Array, " owners"]:
        """Scale of the noise that each owner adds to its answers by itself, so that it keeps its floor; 0 without one."""
        own = [owner.at_floor for owner in self.owner_tables]
        return self.by_owner([0.0 if owner is None else self.mechanism.scale(self, owner) for owner in own])

    @property
    def loss(self) -> LinearLoss:
        """The agreed loss, with its threshold."""
        return losses.named(self.model.loss, self.model.threshold)

    @property
    def rule_in_words(self) -> str:
        """The rule with its variant, or the mechanism where owners answer once, for a column of a table."""
        terms = self.agreement
        if self.one_answer:
            return self.mechanism.label
        if terms.rule == "auto":
            return "to be planned"
        rule = " ".join(filter(None, (terms.rule, rules.named(terms.rule).variant(terms))))
        if terms.robust is not None:
            rule += f", robust against {terms.robust}"
        if terms.graph is not None:
            rule += f", on a graph ({terms.graph})" if isinstance(terms.graph, str) else ", on a graph"
            rule += ", tracking" * bool(terms.tracking)
        return rule + " in rounds" * (terms.window > 1)

    @property
    def queries(self) -> int:
        """Number of queries of a full run: T − 1 rounds, or the smaller of T and the sum of all owners' caps.

        Where owners answer once, each is asked once, or all together for their sum. Answers that are kept for further attempts
        at a sum are not counted.
        """
        if self.one_answer:
            return 1 if self.summed else self.n_owners
        if self.synchronous:
            return min(self.agreement.horizon - 1, self.answers - self.attempts)
        return min(self.agreement.horizon, (self.answers - self.attempts) * self.n_participants)


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_toml(k)} = {_toml(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_toml, value)) + "]"
    # JSON writes strings, numbers and booleans as TOML does, except for DEL, which TOML escapes, and characters beyond
    # 2¹⁶, which are surrogate pairs in JSON.
    written = json.dumps(value, allow_nan=False).replace("\x7f", "\\u007f")
    return _SURROGATES.sub(_code_point, written)


def _code_point(pair: re.Match[str]) -> str:
    character = json.loads(f'"{pair[0]}"')
    return f"\\U{ord(character):08x}"
