"""How long the first touch takes, beside numpy's own import: `python -m benchmarks.startup [--pairs N]`.

Each pair starts two fresh interpreters, one after the other, so that a busy moment hits both; the median ratio counts.
Bounds: `copriv --help` at most 4 times `import numpy`, `import copriv; copriv.Agreement` at most 5 times. Exit code 1
where one does not hold.
"""

import argparse
import statistics
import subprocess
import sys
import time

NUMPY = "import numpy"
MEASURED = {
    "copriv --help": ("from copriv.cli import main; main(['--help'])", 4.0),
    "import copriv; copriv.Agreement": ("import copriv; copriv.Agreement", 5.0),
    "copriv simulate --help": ("from copriv.cli import main; main(['simulate', '--help'])", None),
    "import copriv; copriv.simulate": ("import copriv; copriv.simulate", None),
    "import copriv; copriv.Owner": ("import copriv; copriv.Owner", None),
}


def seconds(code: str) -> float:
    """Wall-clock time of a fresh interpreter that runs this."""
    begun = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - begun


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=15, help="how many pairs of each")
    pairs, too_slow = parser.parse_args().pairs, []
    for code in (NUMPY, *(code for code, _ in MEASURED.values())):
        seconds(code)  # compiles what has to be compiled
    for name, (code, most) in MEASURED.items():
        both = [(seconds(code), seconds(NUMPY)) for _ in range(pairs)]
        ratio = statistics.median(ours / numpy for ours, numpy in both)
        ours, numpy = (statistics.median(one) for one in zip(*both, strict=True))
        bound = "" if most is None else f", at most {most:g}"
        print(f"{name}: {ours:.2f} s, {ratio:.1f} times numpy's {numpy:.2f} s{bound}")
        if most is not None and ratio > most:
            too_slow.append(name)
    return 1 if too_slow else 0


if __name__ == "__main__" and main():
    sys.exit(1)
