"""Where calls go up on walks through the house: `python -m house.walks NAME`, in a process without checks of types at run time.

A call goes up where something is handed down and called there, such as a plan's bounds by a mechanism that chooses among them.
Calls by libraries in between count as those of the file that called the library.
"""

import json
import sys
from collections.abc import Callable
from functools import cache
from types import FrameType

import numpy as np

import copriv
from copriv.losses import Squared
from copriv.model.records import Records
from house import rooms

RNG = np.random.default_rng(25)
OPEN = copriv.Agreement.of(
    {
        "agreement": {"rule": "auto", "horizon": 20},
        "model": {"loss": "squared", "regularization": 1e-5},
        "data": {"heterogeneity": 0.0},
        "owner": [{"name": name, "records": 100, "epsilon": 1.0} for name in ("one", "two")],
    }
)
TERMS = OPEN.replace(
    agreement={"rule": "A2", "step": 1.0, "horizon": 4, "answers": 2}, model={"gradient_bound": 3.0}, data={}
)


def table(rows: int) -> tuple[np.ndarray, np.ndarray]:
    x = RNG.normal(size=(rows, 2))
    return x, x @ [1.0, -0.5] + 0.3 * RNG.normal(size=rows)


@cache
def height_of(path: str) -> tuple[int, str] | None:
    """The floor of a file's room, from the top, and the room; None for a library's file and for the package's door."""
    name = path.removeprefix(f"{rooms.SOURCE}/").removesuffix(".py").removesuffix("/__init__")
    room = None if name.startswith("/") else rooms.room_of("copriv." + name.replace("/", "."))
    return next(((i, room) for i, layer in enumerate(rooms.layers()) if room in layer), None) if room else None


def climbs(work: Callable[[], object]) -> set[tuple[str, str]]:
    """Pairs of rooms of which the first calls something in the second, which is above it."""
    found: set[tuple[str, str]] = set()

    def called(frame: FrameType, event: str, _: object) -> None:
        if event != "call" or (there := height_of(frame.f_code.co_filename)) is None:
            return
        caller, here = frame.f_back, None
        while caller is not None and here is None:
            caller, here = caller.f_back, height_of(caller.f_code.co_filename)
        if here and there[0] < here[0]:
            found.add((here[1], there[1]))

    sys.setprofile(called)
    try:
        work()
    finally:
        sys.setprofile(None)
    return found


def forecast() -> object:
    return copriv.forecast(copriv.Agreement.of(OPEN.to_dict()), public=table(60), runs=32)


def simulate() -> object:
    return copriv.simulate(TERMS, [table(100), table(100)], public=table(60), runs=2)


def answer() -> object:
    owner = copriv.Owner(TERMS, "one", Records.of(*table(100)), Squared())
    return owner.answer(copriv.Query("first", TERMS.fingerprint, "one", np.zeros(2)))


def shown() -> object:
    return str(copriv.simulate(TERMS, [table(100), table(100)], public=table(60), runs=2))


if __name__ == "__main__":
    print(json.dumps(sorted(climbs(globals()[sys.argv[1]]))))
