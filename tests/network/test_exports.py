"""A run's model in other programs' formats, and the run in MLflow: the same numbers, and nothing that is not public."""

import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from copriv.agreement import Agreement
from copriv.cli import run
from copriv.errors import CoprivError, DataError
from copriv.network.exports import metrics, parameters, pipeline_of, save_onnx
from finished_runs import ROWS, THETA, model, of_every_kind, rows_of_every_kind

skops_io = pytest.importorskip("skops.io")
onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "run.json"
    path.write_text(model().to_json())
    return path


CASES = [
    {}, {"loss": "logistic"}, {"loss": "hinge", "scaling": "none"}, {"components": 3}, {"components": 3, "waves": 12},
    {"loss": "logistic", "components": 3, "waves": 12},
]  # fmt: skip


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "rows.csv"
    rows_of_every_kind().to_csv(path, index=False)
    return path


@pytest.mark.parametrize("case", CASES)
def test_a_pipeline_predicts_from_the_table_that_predict_reads(case, table):
    made = of_every_kind(**case)
    found = skops_io.loads(skops_io.dumps(pipeline_of(made)))
    assert skops_io.get_untrusted_types(data=skops_io.dumps(found)) == []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read = pd.read_csv(table, dtype=str)
        predicted = found.predict(read)
        scores = predicted if "loss" not in case else found.decision_function(read)
    np.testing.assert_allclose(scores, made.scores(table), rtol=1e-13, atol=1e-12)
    if "loss" in case:
        assert predicted.tolist() == made.predict(table)
    else:
        np.testing.assert_array_equal(predicted, scores)


@pytest.mark.parametrize("case", CASES)
def test_onnx_predicts_from_the_table_that_predict_reads(case, table, tmp_path):
    made = of_every_kind(**case)
    save_onnx(made, tmp_path / "model.onnx")
    onnx.checker.check_model(tmp_path / "model.onnx")
    predicted, scores = scored(tmp_path / "model.onnx", pd.read_csv(table, dtype=str, keep_default_na=False))
    np.testing.assert_allclose(scores, made.scores(table), rtol=1e-13, atol=1e-12)
    if "loss" in case:
        assert predicted.tolist() == made.predict(table)
    else:
        np.testing.assert_array_equal(predicted, scores)


RENAMED = {"age": "score", "ratio": "prediction", "amount": "constant 0", "region": "model_score", "ok": "Equal 0"}


def renamed(terms):
    """The terms of [data], with the columns' other names."""
    if isinstance(terms, dict):
        return {RENAMED.get(key, key): renamed(value) for key, value in terms.items()}
    if isinstance(terms, list | tuple):
        return [renamed(value) for value in terms]
    return RENAMED.get(terms, terms) if isinstance(terms, str) else terms


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_a_column_may_have_the_name_of_an_output_or_of_an_inner_value(loss, tmp_path):
    made = of_every_kind(loss)
    terms = made.agreement.to_dict()
    terms["data"] = renamed(terms["data"])
    made = replace(made, agreement=Agreement.of(terms))
    rows_of_every_kind().rename(columns=RENAMED).to_csv(tmp_path / "rows.csv", index=False)
    outputs = save_onnx(made, tmp_path / "model.onnx")
    assert outputs == ("model_prediction", "model_model_score")
    onnx.checker.check_model(tmp_path / "model.onnx")
    read = pd.read_csv(tmp_path / "rows.csv", dtype=str, keep_default_na=False)
    _, scores = scored(tmp_path / "model.onnx", read)
    np.testing.assert_allclose(scores, made.scores(tmp_path / "rows.csv"), rtol=1e-13, atol=1e-12)


def scored(path, rows):
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return session.run(None, {given.name: rows[[given.name]].to_numpy(dtype=object) for given in session.get_inputs()})


def test_days_beyond_the_first_and_the_last_count_as_these_where_they_are_clamped(tmp_path):
    made = of_every_kind(clamp=["opened"])
    rows_of_every_kind(100, opened=("2005-01-01", 9000)).to_csv(tmp_path / "rows.csv", index=False)
    read = pd.read_csv(tmp_path / "rows.csv", dtype=str)
    np.testing.assert_allclose(pipeline_of(made).predict(read), made.scores(tmp_path / "rows.csv"), atol=1e-12)
    save_onnx(made, tmp_path / "model.onnx")
    _, scores = scored(tmp_path / "model.onnx", read.fillna(""))
    np.testing.assert_allclose(scores, made.scores(tmp_path / "rows.csv"), atol=1e-12)


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    made, graph = of_every_kind("logistic"), tmp_path_factory.mktemp("exported") / "model.onnx"
    save_onnx(made, graph)
    return made, pipeline_of(made), graph


@pytest.mark.parametrize(
    ("column", "cell"),
    [
        ("ratio", "0.7000001"), ("ratio", "-0.31"), ("income", "-1"), ("income", "400001"), ("grade", "D"), ("code", "03"),
        ("opened", "01.02.2020"), ("seen", "2020-04-01"), ("seen", "soon"), ("age", ""), ("grade", ""), ("opened", "NA"),
        ("ok", "perhaps"),
    ],
)  # fmt: skip
def test_what_predict_refuses_has_no_score_elsewhere(column, cell, exported, tmp_path):
    made, pipeline, graph = exported
    rows = rows_of_every_kind(3).astype(object)
    rows.loc[1, column] = cell
    rows.to_csv(tmp_path / "rows.csv", index=False)
    with pytest.raises(DataError, match=f"{column}, row 2"):
        made.scores(tmp_path / "rows.csv")
    with pytest.raises(ValueError, match=r"NaN|unknown categories|could not convert"), np.errstate(all="ignore"):
        pipeline.predict(pd.read_csv(tmp_path / "rows.csv", dtype=str))
    read = pd.read_csv(tmp_path / "rows.csv", dtype=str, keep_default_na=False)
    predicted, scores = scored(graph, read)
    assert np.isnan(scores).tolist() == [False, True, False]
    assert predicted[1] == ""


def test_a_level_that_pandas_takes_for_missing_is_told_where_missing_is_another():
    made = of_every_kind()
    terms = made.agreement.to_dict()
    terms["data"]["categories"]["region"] = ["east", "None", "other"]
    with pytest.raises(CoprivError, match=r"region has a level that pandas takes for missing.*None.*rename it"):
        pipeline_of(replace(made, agreement=Agreement.of(terms)))
    del terms["data"]["missing"]["region"]  # then only this level can be meant
    found = pipeline_of(replace(made, agreement=Agreement.of(terms)))
    rows = rows_of_every_kind(2).assign(region=[None, "east"])
    text = rows.assign(region=["None", "east"])
    np.testing.assert_allclose(
        found.predict(rows), replace(made, agreement=Agreement.of(terms)).scores(text), atol=1e-12
    )


def test_a_built_in_data_set_reads_its_own_files(tmp_path):
    terms = model().agreement.to_dict() | {"data": {"dataset": "lending-embedded", "components": 2}}
    made = replace(model(), agreement=Agreement.of(terms))
    np.testing.assert_allclose(pipeline_of(made).predict(ROWS), ROWS @ THETA)
    with pytest.raises(CoprivError, match=r"lending-embedded.*declare the columns"):
        save_onnx(made, tmp_path / "model.onnx")


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
    assert run(["export", str(saved), "--mlflow", "mysql://me:secret@host/db"]) == 1
    assert "secret" not in (refused := capsys.readouterr().err)
    assert "give another --mlflow" in refused


def test_what_is_logged_names_no_owner():
    told = {**metrics(model()), **parameters(model())}
    assert not [key for key in told if key.endswith("_name")]
    assert metrics(model())["owner_2_spent"] == 1.0


def test_an_export_says_what_goes_in_and_comes_out(tmp_path, capsys):
    (tmp_path / "run.json").write_text(of_every_kind().to_json())
    assert run(["export", str(tmp_path / "run.json"), "--onnx", str(tmp_path / "m.onnx")]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert told.endswith("m.onnx: inputs are the columns by name, outputs prediction and score")


def test_an_export_without_a_place_or_with_a_report_for_nobody(saved, capsys):
    assert run(["export", str(saved)]) == 2
    assert "say where to" in capsys.readouterr().err
    assert run(["export", str(saved), "--onnx", "m.onnx", "--report", "r.html"]) == 2
