"""Freezes the results again: `python -m tests.golden [NAME...]`, all when none is named. When it may be: test_golden.py."""

import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_CORETYPE", "Haswell")  # as the tests do, before numpy is imported
sys.path.insert(0, str(Path(__file__).parents[1]))  # as pytest does

from golden import cases, digits

FROZEN = Path(__file__).parent / "frozen"


def every(folder: Path) -> Iterator[tuple[str, str, Callable[[], Any]]]:
    """(kind, name, how its digits are made)."""
    for name, problem in cases.SIMULATED.items():
        yield "simulate", name, lambda problem=problem: digits.of_simulation(problem(folder))
    for name, document in cases.SHARED.items():
        yield "simulate", name, lambda document=document: digits.of_simulation(cases.loaded(document))
    for name, document in cases.FORECAST.items():
        yield "forecast", name, lambda document=document: digits.of_forecast(cases.arrays(document))
    for name in cases.FIGURES:
        yield "reproduce", name, lambda name=name: digits.of_figure(figure(name, folder))


def figure(name: str, folder: Path) -> Path:
    """`copriv reproduce NAME --quick`, in this process."""
    from copriv.cli import run

    code = run(["reproduce", name, "--quick", "--out", str(folder), "--backend", "threading", "--workers", "1"])
    if code:
        raise SystemExit(f"copriv reproduce {name}: exit code {code}")
    return folder / f"{name}.csv"


def main(names: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        wanted = [one for one in every(Path(folder)) if not names or one[1] in names]
        kinds = dict.fromkeys(kind for kind, _, _ in wanted)
        for kind in kinds:
            path = FROZEN / f"{kind}.json"
            known = json.loads(path.read_text(encoding="utf-8")) if names and path.is_file() else {}
            for of, name, make in wanted:
                if of == kind:
                    print(f"{kind}: {name}", flush=True)
                    known[name] = make()
            path.parent.mkdir(exist_ok=True)
            entries = (f"{json.dumps(n)}: {json.dumps(known[n], ensure_ascii=False)}" for n in sorted(known))
            path.write_text("{\n" + ",\n".join(entries) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
