"""What is installed, and what is known against it: `python -m tests.supply sbom|audit`, by the tools of the group `supply`.

    sbom    a software bill of materials, CycloneDX in JSON, of an environment (cyclonedx-py)
    audit   the pinned versions of an environment held against known vulnerabilities (pip-audit); asks PyPI

`audit` ends with 0 where all were checked and nothing is known, with 1 where something is, and with 2 where it could not be
checked, such as without a network: that nothing was found is said only where it was looked for.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
FINE, FOUND, NOT_CHECKED = 0, 1, 2


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.supply", description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("sbom", "audit"))
    parser.add_argument("--of", default=".venv/bin/python", help="the environment's python")
    parser.add_argument("--out", default="out/sbom.cdx.json", help="where the bill goes")
    parser.add_argument("--tools", default=str(Path(sys.executable).parent), help="the folder of the tools")
    given = parser.parse_args(arguments)
    tools, python = Path(given.tools), given.of
    return sbom(tools, python, Path(given.out)) if given.what == "sbom" else audit(tools, python)


def sbom(tools: Path, python: str, out: Path) -> int:
    """Write the bill of what an environment holds."""
    out.parent.mkdir(parents=True, exist_ok=True)
    command = [str(tools / "cyclonedx-py"), "environment", python, "--pyproject", str(ROOT / "pyproject.toml")]
    made = subprocess.run([*command, "--output-format", "JSON", "--output-file", str(out)], check=False)
    if made.returncode != 0:
        print(f"NOT MADE: cyclonedx-py ended with {made.returncode}")
        return NOT_CHECKED
    bill = json.loads(out.read_text(encoding="utf-8"))
    print(f"{out}: {bill['bomFormat']} {bill['specVersion']}, {len(bill.get('components', ()))} components")
    return FINE


def audit(tools: Path, python: str) -> int:
    """Hold the pinned versions of an environment against what is known."""
    frozen = subprocess.run(
        [python, "-m", "pip", "freeze", "--exclude-editable"], check=True, capture_output=True, text=True
    ).stdout
    pinned = [line for line in frozen.splitlines() if "==" in line]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "requirements.txt"
        file.write_text("\n".join(pinned) + "\n", encoding="utf-8")
        command = [str(tools / "pip-audit"), "--requirement", str(file), "--disable-pip", "--no-deps"]
        done = subprocess.run(
            [*command, "--progress-spinner", "off", "--timeout", "5", "--format", "json"],
            check=False, capture_output=True, text=True,
        )  # fmt: skip
    return _said(done.stdout, done.stderr, len(pinned))


def _said(out: str, err: str, pinned: int) -> int:
    try:
        packages: list[dict[str, Any]] = json.loads(out)["dependencies"]
    except (ValueError, KeyError, TypeError):
        why = next((line for line in reversed(err.splitlines()) if line.strip()), "it said nothing")
        print(f"NOT CHECKED: pip-audit could not ask what is known of {pinned} packages: {why[:300]}")
        return NOT_CHECKED
    known = [
        (one["name"], one["version"], v["id"], v["fix_versions"]) for one in packages for v in one.get("vulns", ())
    ]
    skipped = [one["name"] for one in packages if "skip_reason" in one]
    for name, version, identity, fixed in known:
        print(f"{name} {version}: {identity}, fixed in {', '.join(fixed) or 'no version'}")
    checked = len(packages) - len(skipped)
    if skipped or checked < pinned:
        print(f"NOT CHECKED: {pinned - checked} of {pinned} packages ({', '.join(skipped)})")
    print(f"{checked} of {pinned} packages checked, {len(known)} vulnerabilities known")
    return FOUND if known else FINE if checked >= pinned else NOT_CHECKED


if __name__ == "__main__":
    sys.exit(main())
