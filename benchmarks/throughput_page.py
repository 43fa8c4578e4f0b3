"""What the page says of speed: a table, and the sentences that follow from its numbers."""

import platform
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

PAGE = Path(__file__).parents[1] / "docs" / "how-to" / "run-a-consortium.md"
BEGIN, END = "<!-- written by python -m benchmarks.throughput --page: -->", "<!-- until here -->"


@dataclass(frozen=True)
class Measured:
    """One size of table."""

    records: int
    slot: float
    """Seconds: the fixed time in which an answer leaves."""
    best: dict[str, float]
    """A second."""
    ratio: dict[str, float]
    """Of the echo."""


def table(measured: list[Measured], words: dict[str, str]) -> str:
    """The table, a column for each size, and what it says."""
    lines = [
        "| | " + " | ".join(f"{one.records:,} records" for one in measured) + " |",
        "| --- |" + " --- |" * len(measured),
        "| a bare gRPC echo, at best | " + " | ".join(f"{one.best['echo']:,.0f} a second" for one in measured) + " |",
    ]
    for key, said in words.items():
        lines.append(f"| {said} | " + " | ".join(_of_the_echo(one.ratio[key]) for one in measured) + " |")
    lines.append(
        "| the time in which an answer leaves | " + " | ".join(f"{one.slot * 1e3:g} ms" for one in measured) + " |"
    )
    when, machine = (
        f"{datetime.now(UTC):%Y-%m-%d}",
        f"{platform.system()} {platform.machine()}, Python {platform.python_version()}",
    )
    return "\n".join([f"Measured on {when}, {machine}.", "", *lines, "", *sentences(measured[-1])])


def sentences(one: Measured) -> list[str]:
    """What each thing costs, in milliseconds an answer, by the medians of ratios."""
    echo = 1e3 / one.best["echo"]
    took = {key: echo / ratio for key, ratio in one.ratio.items()}
    cost = {
        "signatures": took["signed"] - took["unsigned"],
        "ledger": took["ledger"] - took["signed"],
        "ahead": took["ledger"] - took["ledger ahead"],
        "store": took["store"] - took["ledger"],
        "slots": took["whole"] - took["store"],
    }
    return [
        f"With {one.records:,} records, an echo takes {echo:.2f} ms and an answer as `copriv` runs it "
        f"{took['whole']:.2g} ms. Of these, signatures are {cost['signatures']:.2g} ms (two are made and two checked, "
        f"{took['signatures alone']:.2g} ms by themselves); a safe ledger {cost['ledger']:.2g} ms (two flushes of the disk, "
        f"which takes {took['flush alone']:.2g} ms for one); the learner's store {cost['store']:.2g} ms; waiting for the fixed "
        f"time {cost['slots']:.2g} ms. `--ahead 8` takes {cost['ahead']:.2g} ms off an answer that need not wait for its "
        f"time, and leaves {took['whole ahead']:.2g} ms of one that does.",
    ]


def write(text: str, page: Path = PAGE) -> None:
    """Put it in its place on the page."""
    before, _, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    if not end:
        raise SystemExit(f"{page}: has no place for the table ({BEGIN} … {END})")
    page.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{after}", encoding="utf-8")


def _of_the_echo(ratio: float) -> str:
    return f"{ratio:.2f}" if ratio < 10 else f"{ratio:.0f}"
