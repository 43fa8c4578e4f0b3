"""Run figures: trials to rows, rows to ID.csv, ID.png and ID.json, with progress, resumption and any joblib backend.

    for report in reproduce(figures, out, effort):
        print(report.identity, report.verdict)

Trials that are on disk are not run again: a finished figure is identified by the hash of its settings in ID.json, a finished
trial by its key under OUT/.trials. So a run that was stopped is resumed, and figures share their common trials.
"""

import csv
import json
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal, TypeAlias

import joblib

from copriv.errors import CoprivError, UsageError
from copriv.formatting.cards import Shown
from copriv_papers import drawing
from copriv_papers.consortia import NOT_PRIVATE
from copriv_papers.document import caption_of, data_line, document_of
from copriv_papers.figure import Cell, Effort, Figure, Row
from copriv_papers.trials import Outcome, Trial, batch, batches, outcome, reference

REVISION = 3
"""Version of the numbers, increased where they change for a reason other than settings: finished figures are then made anew."""

JUDGED = 2
"""Version of what is compared, increased where that changes: finished figures are written anew, from the trials on disk."""

TOGETHER = 16
"""Number of references that are solved before the trials that share them are run."""

Backend = Literal["loky", "threading", "ray", "dask"]


@dataclass(frozen=True)
class Report(Shown):
    """One finished figure, as its JSON file says."""

    identity: str
    verdict: str
    seconds: float
    resumed: bool
    document: dict[str, Any]


Progress: TypeAlias = Callable[[str, int, int], None]
"""Called with (figure, tasks done, tasks in all)."""


def reproduce(
    figures: Iterable[Figure],
    out: Path,
    effort: Effort,
    *,
    workers: int = -1,
    backend: Backend = "loky",
    force: bool = False,
    progress: Progress | None = None,
    failed: Callable[[str, CoprivError], None] | None = None,
) -> Iterator[Report]:
    """Run, write and yield figures one by one. Raises DataError where a data set cannot be had.

    workers: processes (or threads); −1: one a processor. Neither it nor `backend` changes a digit.
    force: run and write figures again although they are finished; finished trials are still taken from disk.
    failed: told of each figure that cannot be made, and why; the others are made all the same.

    A figure is drawn and written while the trials of the next one are run, and so comes a little after its own.
    """
    out.mkdir(parents=True, exist_ok=True)
    how = _How(out, _Store(out / ".trials"), effort, workers, backend, force, progress)
    with ThreadPoolExecutor(1) as beside:
        made: deque[Future[Report]] = deque()
        for figure in figures:
            try:
                made.append(beside.submit(how.run(figure)))
            except CoprivError as error:
                if failed is None:
                    raise
                failed(figure.identity, error)
            # One figure may wait to be drawn, and no more, so that what is finished is told of soon.
            while made and (len(made) > 1 or made[0].done()):
                yield made.popleft().result()
        while made:
            yield made.popleft().result()


@dataclass(frozen=True)
class _How:
    """What all figures of one call have in common."""

    out: Path
    store: "_Store"
    effort: Effort
    workers: int
    backend: Backend
    force: bool
    progress: Progress | None

    def run(self, figure: Figure) -> Callable[[], Report]:
        """Run the trials that are not on disk; what is returned writes the figure, and needs this process alone."""
        begun, effort = time.perf_counter(), self.effort
        cells = figure.plan(effort)
        others = _on_the_other_table(figure, cells, effort)
        keys = [cell.trial.key for cell in (*cells, *others)]
        settings = sha256(json.dumps([REVISION, JUDGED, figure.identity, keys]).encode()).hexdigest()
        finished = None if self.force else _finished(self.out, figure.identity, settings)
        if finished is not None:
            return partial(Report, figure.identity, finished["verdict"], finished["seconds"], True, finished)
        run = sum(self.store.read(key) is None for key in set(keys))
        found = _outcomes((*cells, *others), self.store, figure.identity, self.workers, self.backend, self.progress)
        more = {"settings_hash": settings, "trials": {"all": len(set(keys)), "run": run}}
        ran = time.perf_counter() - begun
        return partial(self.write, figure, cells, found[: len(cells)], (others, found[len(cells) :]), more, ran)

    def write(
        self,
        figure: Figure,
        cells: Sequence[Cell],
        outcomes: Sequence[Outcome],
        others: tuple[Sequence[Cell], Sequence[Outcome]],
        more: dict[str, Any],
        ran: float,
    ) -> Report:
        """Three files. ran: the seconds that the trials took."""
        begun, out = time.perf_counter(), self.out
        rows = figure.rows(cells, outcomes)
        document = document_of(figure, cells, outcomes, rows, self.effort, others) | more
        write_csv(out / f"{figure.identity}.csv", rows)
        top, caption = data_line(document), caption_of(figure, document)
        drawing.write(partial(figure.draw, rows), out / f"{figure.identity}.png", caption, top)
        document["seconds"] = round(ran + time.perf_counter() - begun, 2)
        # Last, so that a figure with a JSON file is a finished one.
        (out / f"{figure.identity}.json").write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
        return Report(figure.identity, document["verdict"], document["seconds"], False, document)


def outcomes_of(
    cells: Sequence[Cell],
    out: Path,
    identity: str,
    *,
    workers: int = -1,
    backend: Backend = "loky",
    progress: Progress | None = None,
) -> list[Outcome]:
    """Trials without a figure, one outcome a cell; those on disk are not run again."""
    out.mkdir(parents=True, exist_ok=True)
    return _outcomes(cells, _Store(out / ".trials"), identity, workers, backend, progress)


def _outcomes(
    cells: Sequence[Cell], store: "_Store", identity: str, workers: int, backend: Backend, progress: Progress | None
) -> list[Outcome]:
    trials = {cell.trial.key: cell.trial for cell in cells}
    missing = [trial for key, trial in trials.items() if store.read(key) is None]
    with _carried_by(backend, workers):
        _run(missing, store, workers, backend, identity, progress)
    return [store.outcome(cell.trial.key) for cell in cells]


def _on_the_other_table(figure: Figure, cells: Sequence[Cell], effort: Effort) -> list[Cell]:
    """The paper's own settings on the loans that everybody has, where a whole figure is of other loans."""
    if effort.quick or "lending" in effort.paths or not any(_loans(cell) == "lending" for cell in cells):
        return []
    if all(cell.trial.agreement.data.path is None for cell in cells if _loans(cell) == "lending"):
        return []  # it is of those already
    return [
        cell
        for cell in figure.plan(effort.inside)
        if _loans(cell) == "lending-embedded" and cell.trial.mechanism in NOT_PRIVATE
    ]


def _loans(cell: Cell) -> str | None:
    return cell.trial.agreement.data.dataset


def write_csv(path: Path, rows: Sequence[Row]) -> None:
    """Rows of equal keys, floats with 7 digits."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows({k: f"{v:.7g}" if isinstance(v, float) else v for k, v in row.items()} for row in rows)


class _Store:
    """Finished trials, one small JSON file each."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(exist_ok=True)

    def read(self, key: str) -> dict[str, Any] | None:
        path = self._folder / f"{key}-{REVISION}.json"
        try:
            found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, json.JSONDecodeError):
            return None  # not there, or cut short when an earlier run was stopped
        return found

    def outcome(self, key: str) -> Outcome:
        return Outcome(**(self.read(key) or {}))

    def write(self, key: str, found: Outcome) -> None:
        path = self._folder / f"{key}-{REVISION}.json"
        path.write_text(json.dumps(found.to_dict()), encoding="utf-8")


def _run(
    trials: Sequence[Trial], store: _Store, workers: int, backend: Backend, identity: str, progress: Progress | None
) -> None:
    shared_by = {trial.shared_by: trial for trial in trials}
    total, done = len(shared_by) + sum(len(batches(trial.runs)) for trial in trials), 0

    def carried(calls: Sequence[Any]) -> Iterator[Any]:
        nonlocal done
        # Only joblib's own backends hand results out one by one.
        one_by_one = backend in ("loky", "threading")
        parallel = joblib.Parallel(workers, return_as="generator" if one_by_one else "list", batch_size=1)
        for result in parallel(calls):
            done += 1
            if progress is not None:
                progress(identity, done, total)
            yield result

    # A few references at a time: a run that is stopped loses no more than these, and plans take long.
    names = list(shared_by)
    for at in range(0, len(names), TOGETHER):
        few = names[at : at + TOGETHER]
        mine = [trial for trial in trials if trial.shared_by in set(few)]
        solved = carried([joblib.delayed(reference)(shared_by[name]) for name in few])
        shared = dict(zip(few, solved, strict=True))
        tasks = [(trial, first, runs) for trial in mine for first, runs in batches(trial.runs)]
        results = carried([joblib.delayed(batch)(t, shared[t.shared_by], first, runs) for t, first, runs in tasks])
        for trial in mine:
            parts = [next(results) for _ in batches(trial.runs)]
            store.write(trial.key, outcome(trial, shared[trial.shared_by], parts))


@contextmanager
def _carried_by(backend: Backend, workers: int) -> Iterator[None]:
    """joblib's context for a backend; Ray and Dask are started on this machine unless they run already."""
    if backend == "ray":
        try:
            import ray
            from ray.util.joblib import register_ray
        except ImportError:
            raise UsageError('--backend ray: Ray is not installed; pip install "copriv-papers[ray]"') from None
        if not ray.is_initialized():
            ray.init(num_cpus=None if workers < 0 else workers, include_dashboard=False, log_to_driver=False)
        register_ray()
    if backend == "dask":
        try:
            from dask.distributed import Client, default_client
        except ImportError:
            raise UsageError('--backend dask: Dask is not installed; pip install "copriv-papers[dask]"') from None
        try:
            default_client()
        except ValueError:
            Client(n_workers=None if workers < 0 else workers, threads_per_worker=1, dashboard_address=None)
    with joblib.parallel_config(backend=backend):
        yield


def _finished(out: Path, identity: str, settings: str) -> dict[str, Any] | None:
    files = [out / f"{identity}.{ending}" for ending in ("json", "csv", "png")]
    if not all(file.is_file() for file in files):
        return None
    try:
        document: dict[str, Any] = json.loads(files[0].read_text(encoding="utf-8"))
    except json.JSONDecodeError:
        return None
    return document if document.get("settings_hash") == settings else None
