"""The model of a run, its file, and its predictions.

The file is JSON (`copriv.model/1`) and holds public values only: the agreement, θ, the public dictionary, and a summary of
the run (`record`). `verify` derives it again from the run and compares every value. The exception is a model that an owner
made at home from its own records (`Model.at_home`), which says so in its record.
`to_sklearn` gives the model as a scikit-learn estimator; `exports` writes it for other programs.
"""

import hashlib
import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from jaxtyping import Float

from copriv import losses
from copriv.agreement import Agreement
from copriv.agreement.data_terms import own_table
from copriv.data.consortium import prepare_owner
from copriv.data.dictionary import PublicDictionary
from copriv.data.schema import Number, Schema, lacking
from copriv.data.tables import read_table
from copriv.errors import DataError, InvalidInput
from copriv.formatting.cards import Shown
from copriv.formatting.numbers import counted
from copriv.formatting.sanitize import printable, reason
from copriv.losses import OfMargin
from copriv.network.store import refuse_too_many_owners
from copriv.problem.personalization import personalized
from copriv.types import Array, Loss
from copriv.validation import finite_array

_FORMAT = "copriv.model/1"


@dataclass(frozen=True, eq=False)
class Model(Shown):
    """The model of a run; `record` is a summary of the run."""

    agreement: Agreement
    theta: Float[Array, " p"]
    dictionary: PublicDictionary | None
    record: dict[str, Any]

    def to_json(self) -> str:
        """The text of the model's file."""
        document = {
            "schema": _FORMAT,
            "fingerprint": self.agreement.fingerprint,
            "theta": self.theta.tolist(),
            "dictionary": self.dictionary and json.loads(self.dictionary.to_json()),
            "agreement": self.agreement.to_dict(),
            "record": self.record,
        }
        return json.dumps(document, indent=2)

    @property
    def digest(self) -> str:
        """SHA-256 of the file's values, independent of their layout, hex."""
        return digest_of(parsed(self.to_json()))

    @property
    def dictionary_fingerprint(self) -> str:
        """Fingerprint of the public dictionary; "" without one."""
        if self.dictionary is None:
            return ""
        return self.dictionary.fingerprint

    @classmethod
    def from_json(cls, text: str) -> "Model":
        """Read what `to_json` wrote. Raises InvalidInput for anything else."""
        return cls.of(parsed(text))

    @classmethod
    def of(cls, document: Any) -> "Model":
        """The model of a file's values (`read_document`). Raises InvalidInput for the values of another kind of file."""
        try:
            if not str(document["schema"]).startswith(_FORMAT.partition("/")[0]):
                other = printable(str(document["schema"]), 60)
                raise InvalidInput(f"model: is no model file but {other!r}; give the file that copriv learner wrote")
            if document["schema"] != _FORMAT:
                raise InvalidInput(
                    f"model: written as {document['schema']!r}, this version reads {_FORMAT!r}; use the copriv that wrote it"
                )
            agreement = Agreement.of(document["agreement"])
            refuse_too_many_owners(agreement)
            theta = finite_array("model.theta", document["theta"], 1)
            inner = document["dictionary"]
            dictionary = None if inner is None else PublicDictionary.from_json(json.dumps(inner))
            record, fingerprint = dict(document["record"]), document["fingerprint"]
            largest = float(np.abs(theta).max(initial=0.0))
        except InvalidInput:
            raise
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
            raise _no_model(error) from None
        if agreement.fingerprint != fingerprint:
            raise InvalidInput(
                "model: the agreement in it was changed; its fingerprint does not match; ask for the file as copriv learner "
                "wrote it"
            )
        most = agreement.model.theta_max
        if largest > (1e30 if "personalized_at_home" in record else most):  # a model at home is not projected
            raise InvalidInput(
                f"model.theta: a parameter is {largest:g} in size, and the agreed theta_max is {most:g}: no run ends there; "
                "ask for the file as copriv learner wrote it"
            )
        return cls(agreement, theta, dictionary, record)

    @classmethod
    def load(cls, path: str | Path, unfinished: bool = False, *, for_use: bool = True) -> "Model":
        """Read a model file.

        unfinished: accept a model whose run did not finish, which may have learned nothing.
        for_use: refuse a file of a mechanism that gives no model.
        Raises InvalidInput for any other file, and, without `unfinished`, for a model whose run did not finish or, with
        `for_use`, whose mechanism gives no model.
        """
        try:
            model = cls.of(read_document(path))
        except InvalidInput as error:
            said = str(error).removeprefix("model: ").removeprefix(f"{path}: ")
            raise InvalidInput(f"{path}: {said}") from None
        if not (unfinished or model.finished_run):
            raise InvalidInput(
                f"{path}: the run of this model did not finish ({model.record.get('outcome') or 'it does not say why'}), so "
                "it may have learned nothing; let it finish by copriv learner --resume, if it can go on, or use it as it is by "
                "--unfinished"
            )
        if for_use and not (unfinished or model.agreement.mechanism.gives_model):
            stopped, do = "", "agree on another mechanism, or "
            if model.record.get("kept"):  # a pilot's mechanism is nobody's choice
                stopped, do = "the run stopped after its pilot: ", ""
            raise InvalidInput(
                f'{path}: {stopped}no model follows from mechanism "{model.agreement.agreement.mechanism}", and the file has '
                f"the agreed start; {do}use it as it is by --unfinished"
            )
        return model

    def features(self, table: object) -> Float[Array, "records p"]:
        """Rows as the model's features: encoded and mapped through the dictionary. The target may be absent."""
        read, schema = self._table(table)
        problems = lacking([column.name for column in schema.columns], read.columns)
        if len(problems) > 1:
            raise DataError(f"{problems[0]} ({len(problems) - 1} more)")
        if problems:
            raise DataError(str(problems[0]))
        # Encoding requires a target, and a unit where the agreement has one: constants stand in for them.
        dummies: dict[str, Any] = {}
        match schema.target:
            case Number(name=name, low=low):
                dummies[name] = low
            case target:
                dummies[target.name] = target.negative
        if schema.unit is not None:
            dummies[schema.unit] = "0"
        whole = read.with_columns(**{name: nw.lit(value) for name, value in dummies.items()})
        intercept = self.agreement.model.intercept
        return prepare_owner(whole, schema, self.dictionary, None, intercept=intercept).features

    @property
    def at_home(self) -> bool:
        """Whether an owner made it from its own records, for itself: it is not private and must not be released."""
        return "personalized_at_home" in self.record or "learned_at_home" in self.record

    def released(self) -> "Model":
        """This model. Raises InvalidInput for one made at home, which cannot be evaluated on the rows it was fitted to."""
        if self.at_home:
            raise InvalidInput(
                "model: an owner made it at home from its own records, which it has seen; give the common model, as "
                "copriv learner wrote it"
            )
        return self

    @property
    def finished_run(self) -> bool:
        """Whether the run finished; a file that does not say so counts as unfinished."""
        return bool(self.record.get("status") == "finished")

    def personalized(self, table: object, seed: int = 0) -> "Model":
        """An owner's own model, fitted at home on its own table with this one as a prior (`copriv.personalize`).

        It is made from the owner's records without a privacy guarantee: its record says so, and nothing sends it.
        Raises DataError where the table is not as agreed, or has no target; InvalidInput where this model was made at home
        itself (`released`).
        """
        self.released()
        read, schema = self._table(table, self.agreement.owner_tables[0].unit)
        rows = prepare_owner(read, schema, self.dictionary, None)
        own = personalized(self.agreement, self.theta, rows, seed=seed)
        sizes = {"rows": len(rows)}
        if rows.person is not None:
            sizes["persons"] = own.rows
        note = {
            **sizes,
            "common_share": own.common_share,
            "private": False,
            "note": "Made by an owner from its own records, for itself. No budget was spent because nothing is "
            "released: this file must not leave.",
        }
        return replace(self, theta=own.theta, record={**self.record, "personalized_at_home": note})

    def scores(self, table: object) -> Float[Array, " records"]:
        """xᵀθ of each row: the predicted number, or for two classes a score that is above 0 for the second class."""
        x = self.features(table)
        self.check_features(x.shape[1])
        scores: Array = x @ self.theta
        if not np.isfinite(scores).all():
            raise DataError("model: its predictions are no finite numbers; ask for the file as copriv learner wrote it")
        return scores

    def check_features(self, features: int) -> None:
        """Raise DataError unless there is a parameter for each of so many features, the intercept's among them."""
        if features != len(self.theta):
            raise DataError(
                f"model: has {counted(len(self.theta), 'parameter')}, the table gives {counted(features, 'feature')}; ask "
                "for the file as copriv learner wrote it"
            )

    def predict(self, table: object) -> list[float] | list[str]:
        """The predicted number of each row, or its class by name."""
        scores, target = self.scores(table), self._table(table)[1].target
        if isinstance(target, Number):
            return [float(z) for z in scores]
        classes = (target.negative, target.positive)
        return [classes[int(z > 0)] for z in scores]

    def to_sklearn(self) -> Any:
        """A fitted scikit-learn estimator with these coefficients, for features as `features` gives them.

        `copriv.network.exports.pipeline_of` gives one for tables.
        """
        return estimator(losses.named(self.agreement.model.loss), self.theta, 0.0, (-1, 1))

    def _table(self, table: object, unit: str | None = None) -> tuple[nw.DataFrame[Any], Schema]:
        found, schema = own_table(self.agreement, table, unit)
        return read_table(found, schema.names), schema


def estimator(loss: Loss, weights: Float[Array, " p"], intercept: float, classes: tuple[Any, Any] | None) -> Any:
    """A fitted scikit-learn estimator of a loss; `classes`: the classes of scores up to 0, and above 0."""
    from sklearn.linear_model import LinearRegression, LogisticRegression
    from sklearn.svm import LinearSVC

    if not isinstance(loss, OfMargin):
        regression = LinearRegression()
        regression.coef_, regression.intercept_, regression.n_features_in_ = weights.copy(), intercept, len(weights)
        return regression
    classifier: Any = LinearSVC()
    if loss.smooth:
        classifier = LogisticRegression()
    classifier.coef_, classifier.intercept_ = weights[None, :].copy(), np.array([intercept])
    classifier.classes_, classifier.n_features_in_ = np.array(classes), len(weights)
    return classifier


def read_document(path: str | Path) -> Any:
    """The values of a model's file, as `parsed`. Raises InvalidInput."""
    try:
        return parsed(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(
            f"{path}: cannot read the model ({reason(error)}); give the file of copriv learner"
        ) from None


def parsed(text: str) -> Any:
    """The values of a model file's text. Raises InvalidInput for text that is not JSON, and for a repeated name.

    Readers differ in which of two values under one name they take.
    """

    def once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        named = dict(pairs)
        if len(named) < len(pairs):
            raise InvalidInput("model: a name stands twice in it; copriv learner writes each once")
        return named

    try:
        return json.loads(text, object_pairs_hook=once_each)
    except InvalidInput:
        raise
    except (ValueError, RecursionError) as error:
        raise _no_model(error) from None


def digest_of(document: Any) -> str:
    """SHA-256 of the values of a model's file, independent of the order of names and of spaces, hex. Raises InvalidInput."""
    try:
        return hashlib.sha256(json.dumps(document, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
    except RecursionError as error:
        raise _no_model(error) from None


def _no_model(error: Exception) -> InvalidInput:
    why = "its parts are of other kinds"
    if isinstance(error, KeyError):
        why = f"it has no {error}"
    elif isinstance(error, ValueError | RecursionError):
        why = "it is no JSON"
    return InvalidInput(f"model: not a model file ({why}); give the file that copriv learner wrote")
