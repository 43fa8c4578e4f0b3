"""What `copriv export` writes predicts where copriv is not installed: a model is for those who never heard of it."""

import json

import numpy as np
import pytest

from copriv.cli import run as copriv
from empty_environments import environment, run
from finished_runs import of_every_kind, rows_of_every_kind

pytestmark = [pytest.mark.slow]

OPENED = {
    "skops": (
        ["skops", "scikit-learn", "pandas"],
        "import pandas, skops.io; assert not skops.io.get_untrusted_types(file=file);"
        "found = skops.io.load(file).predict(pandas.read_csv('rows.csv', dtype=str))",
    ),
    "onnx": (
        ["onnxruntime", "pandas"],
        "import onnxruntime, pandas; rows = pandas.read_csv('rows.csv', dtype=str, keep_default_na=False);"
        "session = onnxruntime.InferenceSession(file, providers=['CPUExecutionProvider']);"
        "given = {one.name: rows[[one.name]].to_numpy(dtype=object) for one in session.get_inputs()};"
        "found = session.run(None, given)[0]",
    ),
}
"""Format → what is installed, and how a file is read there and predicts from a table."""
SCRIPT = """
import importlib.util, json
assert importlib.util.find_spec("copriv") is None, "copriv must not be here"
file = "model.{format}"
{read}
json.dump(found.tolist(), open("found.json", "w"))
"""


@pytest.mark.parametrize("format", OPENED)
def test_an_export_predicts_as_copriv_does_where_copriv_is_not(format, tmp_path, capsys):
    installed, read = OPENED[format]
    python = environment(tmp_path / "environment", installed)
    rows_of_every_kind().to_csv(tmp_path / "rows.csv", index=False)
    (tmp_path / "read.py").write_text(SCRIPT.format(format=format, read=read))
    cases = ({}, {"components": 3, "waves": 12}, {"loss": "logistic"})
    for case in cases:
        (tmp_path / "run.json").write_text(of_every_kind(**case).to_json(), encoding="utf-8")
        written = str(tmp_path / f"model.{format}")
        assert copriv(["export", str(tmp_path / "run.json"), f"--{format}", written]) == 0
        capsys.readouterr()
        assert copriv(["predict", str(tmp_path / "run.json"), str(tmp_path / "rows.csv"), "--json"]) == 0
        wanted = json.loads(capsys.readouterr().out)["predictions"]
        done = run([python, "read.py"], tmp_path)
        assert done.returncode == 0, done.stderr
        found = json.loads((tmp_path / "found.json").read_text())
        if case.get("loss") == "logistic":
            assert found == wanted
        else:
            np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-9)
