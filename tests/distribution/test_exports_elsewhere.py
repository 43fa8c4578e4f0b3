"""What `copriv export` writes is opened where copriv is not installed: a model is for those who never heard of it."""

import json

import numpy as np
import pytest

from copriv.cli import run as copriv
from empty_environments import environment, run
from finished_runs import ROWS, THETA, model

pytestmark = [pytest.mark.slow]

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


@pytest.mark.parametrize("format", OPENED)
def test_an_export_is_opened_where_copriv_is_not(format, tmp_path):
    installed, read = OPENED[format]
    python = environment(tmp_path / "environment", ["numpy", *installed])
    (tmp_path / "rows.json").write_text(json.dumps(ROWS.tolist()))
    (tmp_path / "read.py").write_text(SCRIPT.format(format=format, read=read))
    scores = ROWS @ THETA
    for loss, wanted in (("squared", scores), ("logistic", np.where(scores > 0, 1.0, -1.0))):
        (tmp_path / "run.json").write_text(model(loss).to_json(), encoding="utf-8")
        written = str(tmp_path / f"model.{format}")
        assert copriv(["export", str(tmp_path / "run.json"), f"--{format}", written]) == 0
        done = run([python, "read.py"], tmp_path)
        assert done.returncode == 0, done.stderr
        np.testing.assert_allclose(json.loads((tmp_path / "found.json").read_text()), wanted, rtol=0, atol=1e-6)
