"""Exports of a run's model: a scikit-learn pipeline (skops), an ONNX graph, and a run in MLflow.

All that is written is public and in the model's file: the agreement, θ, and the summary of the run. A model that an owner
made at home is not public, and is not logged.
"""

import os
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED

import numpy as np

from copriv.data.cells import MISSING
from copriv.errors import CoprivError, InvalidInput
from copriv.formatting.sanitize import printable, without_user
from copriv.network.model import Model
from copriv.network.portable import Portable, TextColumn, needed

TABLE_READ = 'pandas.read_csv("rows.csv", dtype=str)'
"""Call that reads a table for the pipeline, all as text. For ONNX add keep_default_na=False, which keeps NA as a text."""


def pipeline_of(model: Model) -> Any:
    """A fitted scikit-learn Pipeline that predicts from tables of text (`TABLE_READ`), as `copriv predict` does.

    It raises ValueError for values that copriv refuses. Where the agreement declares no columns of its own, it is
    `Model.to_sklearn`, for features as in `Model.features`.
    """
    found = Portable.of(model)
    if found is None:
        return model.to_sklearn()
    return found.pipeline()


def save_skops(model: Model, path: str | Path) -> None:
    """Write `pipeline_of` in the format of skops, which runs no code when it is read. Raises CoprivError without [model]."""
    needed("skops.io", "model").dump(pipeline_of(model), path, compression=ZIP_DEFLATED)


def save_onnx(model: Model, path: str | Path) -> tuple[str, str]:
    """Write the model as an ONNX graph from the text of a table's cells to predictions and scores, in double precision.

    Each column is an input of its name: text of shape (records, 1). Outputs are `prediction` (a number, or the name of a
    class) and `score`, of shape (records,); where a column has such a name, the output is `model_prediction` or
    `model_score`. Returns the names of both outputs. Values that copriv would refuse give the score NaN, and the empty text
    as a class; a text in a column of numbers that is no number stops the runtime. Raises CoprivError without the extra
    [onnx], and where the agreement declares no columns of its own.
    """
    onnx = needed("onnx", "onnx")
    found = Portable.of(model)
    if found is None:
        raise CoprivError(
            f"--onnx: the data set {model.agreement.data.named!r} reads files of its own kind, which ONNX cannot; declare the "
            "columns (features, target, bounds), or use --skops for the estimator behind its features"
        )
    content, outputs = _onnx_model(found, onnx)
    Path(path).write_bytes(content)
    return outputs


def log_to_mlflow(model: Model, uri: str, experiment: str, file: str | Path, report: str | Path | None = None) -> str:
    """Log a run with MLflow; returns the identity of MLflow's run.

    Parameters are the agreement's; metrics are the numbers of answers, the budgets spent and, where known, the expected and
    realised fitness; artifacts are the agreement's file, the model's file, and the report. Raises CoprivError without the
    extra [mlflow], where MLflow cannot write at `uri`, and for a model that an owner made at home.
    """
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")  # the default of 7 takes minutes where no server is
    if model.at_home:
        raise CoprivError(
            "mlflow: an owner made this model at home from its own records; it is not private and must not leave, so it "
            "is not logged. Give the common model, as copriv learner wrote it"
        )
    mlflow = needed("mlflow", "mlflow")
    logged_parameters, logged_metrics = parameters(model), metrics(model)
    try:
        client = mlflow.MlflowClient(tracking_uri=uri)
        known = client.get_experiment_by_name(experiment)
        if known is None:
            experiment_id = client.create_experiment(experiment)
        else:
            experiment_id = known.experiment_id
        name = str(model.record.get("run", ""))[:8] or None
        tags = {"copriv.fingerprint": model.agreement.fingerprint}
        run = client.create_run(experiment_id, run_name=name, tags=tags).info.run_id
        for key, value in logged_parameters.items():
            client.log_param(run, key, value)
        for key, number in logged_metrics.items():
            client.log_metric(run, key, number)
        with tempfile.TemporaryDirectory() as made:
            agreed = Path(made) / "agreement.toml"
            agreed.write_text(model.agreement.to_toml(), encoding="utf-8")
            for one in filter(None, (agreed, file, report)):
                client.log_artifact(run, str(one))
        client.set_terminated(run, "FINISHED" if model.finished_run else "FAILED")
    except (mlflow.exceptions.MlflowException, OSError) as error:
        shown = without_user(uri)
        why = printable(str(error).replace(uri, shown).strip(), 300)
        raise CoprivError(f"mlflow: cannot keep the run at {shown} ({why}); give another --mlflow") from None
    return str(run)


def parameters(model: Model) -> dict[str, Any]:
    """The agreement's terms, as MLflow's parameters."""
    terms = model.agreement
    said, fitted = terms.agreement, terms.model
    return {
        "rule": said.rule,
        "mechanism": said.mechanism,
        "horizon": said.horizon,
        "answers": terms.answers,
        "step": said.step,
        "loss": fitted.loss,
        "regularization": fitted.regularization,
        "gradient_bound": fitted.gradient_bound,
        "owners": len(terms.owner),
        "records": sum(owner.records for owner in terms.owner),
        "dataset": terms.data.named,
        "fingerprint": terms.fingerprint,
    }


def metrics(model: Model) -> dict[str, float]:
    """MLflow's metrics of the run, of each owner by its position, and of the forecast.

    Raises InvalidInput where the file's record of the run is damaged.
    """
    try:
        record = model.record
        found = {"queries": float(record["queries"]), "seconds": float(record["seconds"])}
        for place, owner in enumerate(record["owners"], start=1):
            for key in ("records", "answers", "lost", "spent", "spent_delta"):
                found[f"owner_{place}_{key}"] = float(owner[key])
        public = (record.get("realised") or {}).get("public")
        if public is not None:
            found |= {
                "relative_fitness_estimate": float(public["estimate"]),
                "fitness_on_public_rows": float(public["fitness"]),
            }
        expected = record.get("forecast")
        if expected is not None:
            band = expected["relative_fitness"]
            found |= {f"relative_fitness_expected_{key}": float(band[key]) for key in ("mean", "low", "high")}
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as error:
        raise InvalidInput(
            f"model: what it says of its run is not what copriv learner writes ({error!r:.100}); ask for the file again"
        ) from None
    return found


class _Graph:
    """Nodes and constants of an ONNX graph, each with a name of its own; onnx: the module, inputs: names of the columns."""

    def __init__(self, onnx: Any, inputs: Iterable[str]) -> None:
        self.onnx = onnx
        self.inputs = frozenset(inputs)
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def free(self, name: str) -> str:
        """The name, or where a column has it, one that begins with `model_`."""
        while name in self.inputs:
            name = f"model_{name}"
        return name

    def node(self, kind: str, *inputs: str, named: str = "", **options: Any) -> str:
        made = named or self.free(f"{kind} {len(self.nodes)}")
        self.nodes.append(self.onnx.helper.make_node(kind, list(inputs), [made], **options))
        return made

    def of(self, value: Any) -> str:
        """A constant: text, or numbers in double precision."""
        name, array = self.free(f"constant {len(self.constants)}"), np.asarray(value)
        if array.dtype.kind == "U":
            texts = [text.encode() for text in array.ravel().tolist()]
            self.constants.append(self.onnx.helper.make_tensor(name, self.onnx.TensorProto.STRING, array.shape, texts))
        else:
            self.constants.append(self.onnx.numpy_helper.from_array(array, name))
        return name

    def atoms(self, column: TextColumn) -> str:
        """The atoms of a column, of shape (records, atoms)."""
        cell = column.name
        if column.of_levels:
            same = self.double(self.node("Equal", cell, self.of([column.texts])))
            found = self.node("ReduceSum", same, self.of(np.array([1])), keepdims=1)
            return self.node("Div", same, found)  # NaN (0/0) for a text that is not a level
        lacks = self.double(self.node("Equal", cell, self.of([sorted(MISSING)])))
        lacking = self.node("Greater", self.node("ReduceSum", lacks, self.of(np.array([1])), keepdims=1), self.of(0.0))
        cell = self.node("Where", lacking, self.of(column.missing or "nan"), cell)
        if column.texts:
            place = self.node(
                "LabelEncoder", cell, domain="ai.onnx.ml", keys_strings=list(column.texts),
                values_int64s=list(range(len(column.texts))), default_int64=-2,
            )  # fmt: skip
            value = self.double(place)
            value = self.node("Where", self.node("Less", value, self.of(-1.0)), self.of(np.nan), value)
        else:
            value = self.double(cell)
        above = self.node("Sub", value, self.of(column.low))
        for side, cut, end in (("Less", column.cut[0], 0.0), ("Greater", column.cut[1], column.width)):
            outside = self.node(side, above, self.of(end))
            above = self.node("Where", outside, self.of(end if cut else np.nan), above)
        if column.log:
            above = self.node("Log", self.node("Add", above, self.of(1.0)))
        return above

    def double(self, name: str) -> str:
        return self.node("Cast", name, to=self.onnx.TensorProto.DOUBLE)


def _onnx_model(model: Portable, onnx: Any) -> tuple[bytes, tuple[str, str]]:
    """Content of a model's ONNX file, and the names of its outputs: the prediction and the score."""
    graph, helper, types = _Graph(onnx, [column.name for column in model.columns]), onnx.helper, onnx.TensorProto
    outputs = prediction, score = graph.free("prediction"), graph.free("score")
    atoms = graph.node("Concat", *[graph.atoms(column) for column in model.columns], axis=1)
    inner, offset, outer = model.inner, model.inner_offset, model.outer
    if model.waves:
        angles = graph.node("Add", graph.node("MatMul", atoms, graph.of(inner)), graph.of(offset))
        atoms, weights, last = graph.node("Cos", angles), np.sqrt(2.0 / len(outer)) * outer, model.outer_offset
    else:
        weights, last = inner @ outer, float(offset @ outer) + model.outer_offset
    graph.node("Add", graph.node("MatMul", atoms, graph.of(weights)), graph.of(last), named=score)
    kind = types.DOUBLE
    if model.classes is None:
        graph.node("Identity", score, named=prediction)
    else:
        below, beyond = (graph.of(name) for name in model.classes)
        known = graph.node("Where", graph.node("Greater", score, graph.of(0.0)), beyond, below)
        graph.node("Where", graph.node("IsNaN", score), graph.of(""), known, named=prediction)
        kind = types.STRING
    made = helper.make_graph(
        graph.nodes, "copriv",
        [helper.make_tensor_value_info(column.name, types.STRING, [None, 1]) for column in model.columns],
        [helper.make_tensor_value_info(prediction, kind, [None]),
         helper.make_tensor_value_info(score, types.DOUBLE, [None])],
        graph.constants,
    )  # fmt: skip
    # The first opset with comparison of texts, and the first ML opset that maps texts to 64-bit integers.
    opsets = [helper.make_opsetid("", 19), helper.make_opsetid("ai.onnx.ml", 4)]
    written: bytes = helper.make_model(made, opset_imports=opsets, ir_version=9).SerializeToString()
    return written, outputs
