"""A run's model in other programs' formats, and the run in MLflow: the same numbers, and nothing that is not public."""

import numpy as np
import pytest

from copriv.cli import run
from copriv.network.exports import metrics, parameters
from finished_runs import ROWS, THETA, model


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "run.json"
    path.write_text(model().to_json())
    return path


@pytest.mark.parametrize("loss", ["squared", "huber", "logistic", "hinge"])
def test_onnx_gives_the_models_own_scores(loss, tmp_path):
    pytest.importorskip("skl2onnx")
    runtime = pytest.importorskip("onnxruntime")
    from copriv.network.exports import save_onnx

    save_onnx(model(loss), tmp_path / "model.onnx")
    session = runtime.InferenceSession(str(tmp_path / "model.onnx"), providers=["CPUExecutionProvider"])
    first = session.run(None, {"X": ROWS.astype(np.float32)})[0].ravel()
    scores = ROWS @ THETA
    if loss in ("squared", "huber"):
        np.testing.assert_allclose(first, scores, rtol=0, atol=1e-6)
    else:
        np.testing.assert_array_equal(first, np.where(scores > 0, 1, -1))


def test_mlflow_has_numbers_agreement_and_report(saved, tmp_path, capsys, monkeypatch):
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")  # a folder is enough here; teams have a server
    (tmp_path / "report.html").write_text("<p>What left.</p>")
    uri = (tmp_path / "runs").as_uri()
    code = run(["export", str(saved), "--mlflow", uri, "--report", str(tmp_path / "report.html")])
    said = capsys.readouterr()
    assert code == 0, said.err
    client = mlflow.MlflowClient(tracking_uri=uri)
    logged = client.get_run(said.out.split()[-1])
    assert logged.data.metrics == metrics(model())
    assert logged.data.params == {key: str(value) for key, value in parameters(model()).items()}
    names = {one.path for one in client.list_artifacts(logged.info.run_id)}
    assert names == {"agreement.toml", "run.json", "report.html"}
    assert logged.info.status == "FINISHED"


def test_what_is_logged_names_no_owner():
    told = {**metrics(model()), **parameters(model())}
    assert not [key for key in told if key.endswith("_name")]
    assert metrics(model())["owner_2_spent"] == 1.0


def test_an_export_without_a_place_or_with_a_report_for_nobody(saved, capsys):
    assert run(["export", str(saved)]) == 2
    assert "say where to" in capsys.readouterr().err
    assert run(["export", str(saved), "--onnx", "m.onnx", "--report", "r.html"]) == 2
