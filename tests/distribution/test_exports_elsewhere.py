"""What `copriv export` writes is opened where copriv is not installed: a model is for those who never heard of it."""

import json

import numpy as np
import pytest

from copriv.agreement import Agreement
from copriv.cli import run as copriv
from copriv.network.model import Model
from empty_environments import environment, run

pytestmark = [pytest.mark.slow]

THETA = [1.5, -0.75]
ROWS = np.random.default_rng(0).uniform(-1, 1, (40, 2))

OPENED = {
    "skops": (
        ["skops", "scikit-learn"],
        "import skops.io; assert not skops.io.get_untrusted_types(file=file); found = skops.io.load(file).predict(rows)",
    ),
    "onnx": (
        ["onnxruntime"],
        "import onnxruntime; session = onnxruntime.InferenceSession(file, providers=['CPUExecutionProvider']);"
        "found = session.run(None, {'X': rows.astype('float32')})[0].ravel()",
    ),
}
"""Format → what is installed beside numpy, and how a file is read there."""
SCRIPT = """
import importlib.util, json, numpy
assert importlib.util.find_spec("copriv") is None, "copriv must not be here"
rows, file = numpy.array(json.load(open("rows.json"))), "model.{format}"
{read}
json.dump(numpy.asarray(found, dtype=float).ravel().tolist(), open("found.json", "w"))
"""


def saved(folder, loss):
    classes = loss == "logistic"
    target = {"categories": {"y": ["no", "yes"]}} if classes else {}
    terms = {
        "agreement": {"rule": "A2", "horizon": 4, "answers": 2, "step": 0.3},
        "model": {"loss": loss, "regularization": 0.1, "gradient_bound": 2.0},
        "data": {"dataset": "table", "components": 0, "features": ["a", "b"], "target": "y"}
        | {"bounds": {"a": [-1, 1], "b": [-1, 1]} | ({} if classes else {"y": [-4, 4]})}
        | target,
        "owner": [{"name": "a", "records": 60, "epsilon": 1.0}],
    }
    path = folder / "run.json"
    path.write_text(Model(Agreement.of(terms), np.array(THETA), None, {}).to_json(), encoding="utf-8")
    return path


@pytest.mark.parametrize("format", OPENED)
def test_an_export_is_opened_where_copriv_is_not(format, tmp_path):
    installed, read = OPENED[format]
    python = environment(tmp_path / "environment", ["numpy", *installed])
    (tmp_path / "rows.json").write_text(json.dumps(ROWS.tolist()))
    (tmp_path / "read.py").write_text(SCRIPT.format(format=format, read=read))
    scores = ROWS @ np.array(THETA)
    for loss, wanted in (("squared", scores), ("logistic", np.where(scores > 0, 1.0, -1.0))):
        assert copriv(["export", str(saved(tmp_path, loss)), f"--{format}", str(tmp_path / f"model.{format}")]) == 0
        done = run([python, "read.py"], tmp_path)
        assert done.returncode == 0, done.stderr
        np.testing.assert_allclose(json.loads((tmp_path / "found.json").read_text()), wanted, rtol=0, atol=1e-6)
