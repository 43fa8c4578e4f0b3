"""Every picture, with long names and small and large numbers: no words leave the canvas, and none meet others.

What is measured is what the renderer draws: the box of each text at the moment that it is drawn.
"""

import dataclasses
from functools import partial

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Text

from copriv.errors import DataError
from copriv.forecast.result import AtHeterogeneity
from copriv.pictures.simulation import alone_and_together
from copriv.pictures.style import STYLE, foot, png
from copriv_papers import BEYOND, FIGURES, Effort, drawing
from copriv_papers.consortia import INSIDE, SHARED
from copriv_papers.trials import Outcome
from results_cases import HOSTILE, LONG, WIDE, called

COMMAND = (
    "copriv forecast /home/somebody/agreements/2031/quarter-3/retail-and-wholesale/agreement.toml --public rows.csv"
)
TOUCH = 1.0
"""Pixels by which boxes may overlap: they are rounded outwards."""


def drawn_words(figure, monkeypatch):
    """Every text that the renderer draws, and its box in pixels."""
    seen, draw = [], Text.draw

    def watched(self, renderer):
        if self.get_visible() and self.get_text().strip():
            seen.append((self.get_text(), self.get_window_extent(renderer)))
        return draw(self, renderer)

    with monkeypatch.context() as patched:
        patched.setattr(Text, "draw", watched)
        FigureCanvasAgg(figure).draw()
    return seen


def faults(figure, monkeypatch):
    words, canvas, found = drawn_words(figure, monkeypatch), figure.bbox, []
    assert len(words) > 5
    for i, (text, box) in enumerate(words):
        if box.x0 < canvas.x0 or box.y0 < canvas.y0 or box.x1 > canvas.x1 or box.y1 > canvas.y1:
            found.append(f"{text!r} leaves the canvas: {box.extents.round()} of {canvas.extents.round()}")
        for other, beside in words[i + 1 :]:
            across = min(box.x1, beside.x1) - max(box.x0, beside.x0)
            along = min(box.y1, beside.y1) - max(box.y0, beside.y0)
            if across > TOUCH and along > TOUCH:
                found.append(f"{text!r} meets {other!r} by {across:.0f} x {along:.0f} pixels")
    return found


def whole(figure, monkeypatch):
    """With the command under it, as in a file."""
    with mpl.rc_context(STYLE):
        foot(figure, (f"$ {COMMAND}", "#6b6b6b"), family="DejaVu Sans Mono")
        found = faults(figure, monkeypatch)
    assert not found, "\n".join(found)


def every_day(shapes, *few):
    """All of them, of which only a few are drawn every day: the others take some seconds more."""
    return [shape if shape in few else pytest.param(shape, marks=pytest.mark.slow) for shape in shapes]


def scaled(band, factor):
    return dataclasses.replace(
        band, **{name: factor * getattr(band, name) for name in ("mean", "median", "low", "high")}
    )


def outlooks(outlook):
    """Forecasts of all shapes: many and few owners, tiny and huge numbers, verdicts that go on and on."""
    owner = outlook.owners[0]
    many = [
        dataclasses.replace(owner, name=f"{LONG} {i}", alone=0.01 * (i + 1), break_even_epsilon_for_all=0.1 * (i + 1))
        for i in range(12)
    ]
    close = [dataclasses.replace(o, alone=0.05 * (1 + 0.06 * i)) for i, o in enumerate(many[:4])]

    def times(factor):
        changed = {name: getattr(outlook, name) for name in ("agreed", "recommended")}
        made = {
            name: dataclasses.replace(one, relative_fitness=scaled(one.relative_fitness, factor))
            for name, one in changed.items()
        }
        owners = [dataclasses.replace(o, alone=factor * o.alone, together=factor * o.together) for o in outlook.owners]
        levels = [AtHeterogeneity(*(factor * x for x in vars(one).values())) for one in outlook.at_heterogeneity]
        return dataclasses.replace(
            outlook,
            **made,
            owners=tuple(owners),
            public_only=factor * outlook.public_only,
            at_heterogeneity=tuple(levels),
        )

    return {
        "as it is": outlook,
        "long names": called(outlook, LONG),
        "wide names": called(outlook, WIDE),
        "hostile names": called(outlook, HOSTILE),
        "many owners": dataclasses.replace(outlook, owners=tuple(many)),
        "four close levels": dataclasses.replace(outlook, owners=tuple(close)),
        "nobody gains": dataclasses.replace(
            outlook, owners=tuple(dataclasses.replace(o, break_even_epsilon_for_all=None) for o in outlook.owners)
        ),
        "one owner": dataclasses.replace(outlook, owners=(dataclasses.replace(owner, alone=0.0),)),
        "tiny": times(1e-6),
        "huge": times(1e6),
        "long description": dataclasses.replace(outlook, description="a table of that very long name " * 12),
    }


SHAPES = [
    "as it is", "long names", "wide names", "hostile names", "many owners", "four close levels", "nobody gains",
    "one owner", "tiny", "huge", "long description",
]  # fmt: skip


@pytest.mark.parametrize("picture", ["break-even", "curves", "heterogeneity"])
@pytest.mark.parametrize("shape", every_day(SHAPES, "wide names", "many owners", "tiny"))
def test_pictures_of_forecasts(outlook, picture, shape, monkeypatch):
    whole(outlooks(outlook)[shape].plot(picture), monkeypatch)


SIMULATED = [
    "as it is", "long names", "hostile names", "five alike", "many", "nobody alone", "not private", "tiny", "huge",
    "long run", "long description",
]  # fmt: skip


def simulations(simulation):
    owner, ψ = simulation.owners[0], simulation.relative_fitness
    more = [dataclasses.replace(owner, name=f"{WIDE} {i}", alone=0.01 * (i + 1)) for i in range(12)]
    k = np.unique(np.geomspace(1, 1e7, 60).astype(int))
    long_run = dataclasses.replace(ψ, k=k, runs=np.ones((3, 1)) * np.geomspace(1e6, 1e-6, len(k)))
    return {
        "as it is": simulation,
        "long names": called(simulation, LONG),
        "hostile names": called(simulation, HOSTILE),
        "five alike": dataclasses.replace(simulation, owners=tuple(more[:5])),
        "many": dataclasses.replace(simulation, owners=tuple(more)),
        "nobody alone": dataclasses.replace(simulation, owners=(dataclasses.replace(owner, alone=None),)),
        "not private": dataclasses.replace(simulation, bound_enforced=False),
        "tiny": dataclasses.replace(simulation, relative_fitness=dataclasses.replace(ψ, runs=ψ.runs * 1e-6)),
        "huge": dataclasses.replace(simulation, relative_fitness=dataclasses.replace(ψ, runs=ψ.runs * 1e6)),
        "long run": dataclasses.replace(simulation, relative_fitness=long_run),
        "long description": dataclasses.replace(simulation, description="a table of that very long name " * 12),
    }


@pytest.mark.parametrize("shape", every_day(SIMULATED, "five alike", "long run"))
def test_pictures_of_simulations(simulation, shape, monkeypatch):
    whole(simulations(simulation)[shape].plot(), monkeypatch)


def test_a_simulations_picture_says_whose_records_it_is_about_and_the_verdict(simulation):
    """Its lines once made joining look good for owners whose own records it made worse."""
    drawn = " ".join(" ".join(text.get_text().split()) for text in simulation.plot().texts)
    assert "What privacy costs the model, on everybody's records" in drawn
    assert " ".join(simulation.verdict.split()) in drawn


@pytest.mark.parametrize(
    ("name", "factor", "owners"), [("owner", 1.0, 1), (LONG, 1e-6, 24), (WIDE, 1e6, 24), (HOSTILE, 1.0, 1)]
)
def test_pictures_of_own_learners(own_learners, name, factor, owners, monkeypatch):
    learners = [
        dataclasses.replace(
            one, **{key: factor * value for key, value in vars(one).items() if isinstance(value, float)}
        )
        for one in own_learners.learners[:owners]
    ]
    changed = dataclasses.replace(own_learners, learners=tuple(learners), public_only=factor * own_learners.public_only)
    whole(called(changed, name, "learners").plot(), monkeypatch)


@pytest.mark.parametrize(("name", "factor"), [("Bank", 1.0), (LONG, 1e-6), (WIDE, 1e6)])
def test_the_demos_picture(outlook, simulation, name, factor, monkeypatch):
    result = called(simulation, name)
    ψ = dataclasses.replace(result.relative_fitness, runs=factor * result.relative_fitness.runs)
    owners = tuple(dataclasses.replace(o, alone=factor * (o.alone or 0.1)) for o in result.owners)
    result = dataclasses.replace(result, relative_fitness=ψ, owners=owners)
    needed = list(zip([o.name for o in owners], [0.3, None], strict=True))
    whole(alone_and_together(result, outlook, needed), monkeypatch)


def test_a_picture_in_a_file_says_the_command(simulation):
    data = png(simulation.plot(), COMMAND)
    assert data.startswith(b"\x89PNG")
    assert COMMAND.encode() in data


def made_up(cell, factor):
    """What a trial could have found, without a run."""
    trial, rng = cell.trial, np.random.default_rng(len(str(cell.at)))
    last = 1000 if trial.record_at is None else 1
    k = sorted({0, *np.unique(np.geomspace(1, last, 30).astype(int)).tolist()})
    ψ = [factor * float(x) for x in np.geomspace(1.0, 0.01, len(k)) * rng.uniform(0.9, 1.1)]
    own = [factor * float(x) for x in rng.uniform(0.01, 0.5, max(trial.alone, 1))]
    events = [[float(t), float(rng.integers(0, 3))] for t in np.cumsum(rng.exponential(size=40))]
    terms = {"rule": "A2", "answers": 3, "step": 1.0, "gradient_bound": 1.0, "feature_bound": 1.0}
    return Outcome(
        k=k, p25=[0.8 * x for x in ψ], median=ψ, p75=[1.3 * x for x in ψ], mean=[1.1 * x for x in ψ], alone=own,
        alone_held_out=own, alike=own, public_only=0.3 * factor, clipped=0.1, held_out=0.2, precision_recall=0.5,
        planned=terms, events=events, private=True, source="resampled", description="a made-up table: some rows",
        seconds=1.0, duration=float(10 * last),
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(
    ("place", "figure"), [*enumerate([*FIGURES, *BEYOND])], ids=lambda one: getattr(one, "identity", "")
)
def test_pictures_of_the_gallery(place, figure, monkeypatch):
    factor = (1e-5, 1.0, 1e5)[place % 3]
    try:
        cells = figure.plan(Effort(True, {"lending": INSIDE}))
    except DataError as error:
        if SHARED.is_dir():
            raise
        pytest.skip(f"its data set is beside the repository, which is not there: {error}")
    rows = figure.rows(cells, [made_up(cell, factor) for cell in cells])
    top = "Data: 26,611 loans of the package, a table with a long name [real, resampled]; simulated discharges [SIMULATED]."
    caption = f"{figure.source}. {figure.title}. Not the paper's: " + "a difference in words; " * 12
    found = faults(drawing.finished(partial(figure.draw, rows), caption, top), monkeypatch)
    assert not found, "\n".join(found)
