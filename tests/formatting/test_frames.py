"""A result as a data frame: the same numbers in pandas, polars and pyarrow; clear words where there is no such thing."""

import dataclasses
import importlib

import numpy as np
import pandas
import polars
import pyarrow
import pytest

from copriv import CoprivError, UsageError
from copriv.formatting.cards import Shown

KINDS = {"pandas": pandas.DataFrame, "polars": polars.DataFrame, "pyarrow": pyarrow.Table}


def column(frame, name):
    values = frame[name]
    return values.to_pylist() if isinstance(frame, pyarrow.Table) else list(values)


@pytest.mark.parametrize("backend", KINDS)
def test_a_frame_of_each_result_holds_its_numbers(outlook, simulation, own_learners, agreement, backend):
    owners = outlook.to_frame(backend=backend)
    assert isinstance(owners, KINDS[backend])
    assert column(owners, "name") == ["small", "large"]
    assert column(owners, "alone") == [owner.alone for owner in outlook.owners]
    assert column(owners, "joining_pays") == [owner.joining_pays for owner in outlook.owners]

    curves = outlook.to_frame("curves", backend=backend)
    ψ = outlook.agreed.relative_fitness
    assert column(curves, "median")[: len(ψ.k)] == ψ.median.tolist()
    assert set(column(curves, "terms")) == {"agreed", "recommended"}

    series = simulation.to_frame(backend=backend)
    ψ = simulation.relative_fitness
    assert column(series, "k") == ψ.k.tolist()
    assert np.allclose(column(series, "p25"), np.quantile(ψ.runs, 0.25, axis=0), rtol=0, atol=0)
    assert column(simulation.to_frame("owners", backend=backend), "records") == [300, 3000]
    assert column(ψ.to_frame(backend=backend), "mean") == ψ.mean.tolist()

    measured = outlook.plan.to_frame(backend=backend)
    assert column(measured, "relative_fitness") == [choice.relative_fitness for choice in outlook.plan.measured]
    assert len(column(measured, "words")) == len(outlook.plan.measured)
    assert column(outlook.agreed.to_frame(backend=backend), "high") == outlook.agreed.relative_fitness.high.tolist()
    assert column(own_learners.to_frame(backend=backend), "learning") == [one.learning for one in own_learners.learners]
    assert column(agreement.to_frame(backend=backend), "epsilon") == [1.0, 1.0]


def test_what_is_not_known_is_missing_and_not_a_word(outlook):
    owners = tuple(dataclasses.replace(owner, break_even_epsilon=None) for owner in outlook.owners)
    nobody = dataclasses.replace(outlook, owners=owners)
    assert nobody.to_frame()["break_even_epsilon"].isna().all()
    assert nobody.to_frame(backend="polars")["break_even_epsilon"].is_null().all()


def test_a_table_or_a_backend_that_there_is_not(simulation):
    with pytest.raises(UsageError, match="no table 'owner' of this; there is series, owners"):
        simulation.to_frame("owner")
    with pytest.raises(UsageError, match="'spark' is not a backend that is known"):
        simulation.to_frame(backend="spark")


@pytest.mark.parametrize("missing", ["pandas", "polars"])
def test_a_library_that_is_not_installed_is_named(simulation, monkeypatch, missing):
    import_module = importlib.import_module

    def without(name, *rest):
        if name.partition(".")[0] == missing:
            raise ImportError(name)
        return import_module(name, *rest)

    monkeypatch.setattr("copriv.formatting.cards.import_module", without)
    with pytest.raises(CoprivError, match=f"{missing} is not installed; pip install {missing}, or .*pyarrow"):
        simulation.to_frame(backend=missing)
    assert simulation.to_frame(backend="pyarrow").num_rows == len(simulation.relative_fitness.k)


def test_a_figure_for_whoever_asks(outlook, simulation, own_learners, monkeypatch):
    for result in (outlook, simulation, own_learners):
        assert isinstance(result, Shown)
        for picture in (None, *result._pictures):
            figure = result.plot(picture)
            assert figure.axes
    assert outlook.plot("curves")._repr_png_().startswith(b"\x89PNG")
    with pytest.raises(UsageError, match="no picture 'pie' of this; there is break-even, curves, heterogeneity"):
        outlook.plot("pie")
    with pytest.raises(UsageError, match="alike"):
        dataclasses.replace(outlook, at_heterogeneity=()).plot("heterogeneity")

    def without(name, *rest):
        raise ImportError(name)

    monkeypatch.setattr("copriv.formatting.cards.import_module", without)
    with pytest.raises(CoprivError, match="matplotlib is not installed; pip install matplotlib"):
        outlook.plot()
