"""The audit of known vulnerabilities never says "nothing known" where it did not look; SECURITY.md says what it must."""

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

import supply

ROOT = Path(__file__).parents[1]


def tool(folder: Path, name: str, out: str = "", err: str = "", code: int = 0) -> Path:
    """A tool that says this, whatever it is asked."""
    path = folder / name
    path.write_text(
        f"#!{sys.executable}\nimport sys\nsys.stdout.write({out!r})\nsys.stderr.write({err!r})\nsys.exit({code})\n",
        encoding="utf-8",
    )
    path.chmod(0o755)
    return path


def audited(folder: Path, capsys: pytest.CaptureFixture[str], **said: Any) -> tuple[int, str]:
    tool(folder, "pip-audit", **said)
    frozen = tool(folder, "python", out="numpy==2.4.6\nopendp==0.16.0\n-e git+x#egg=copriv\n")
    code = supply.main(["audit", "--of", str(frozen), "--tools", str(folder)])
    return code, capsys.readouterr().out


def found(*names: str, vulns: list[Any] | None = None, **more: Any) -> str:
    return json.dumps({"dependencies": [{"name": n, "version": "1", "vulns": vulns or [], **more} for n in names]})


def test_nothing_known_of_all(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, said = audited(tmp_path, capsys, out=found("numpy", "opendp"))
    assert (code, said) == (0, "2 of 2 packages checked, 0 vulnerabilities known\n")


def test_something_known(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    known = [{"id": "PYSEC-1", "fix_versions": ["2.5"]}]
    code, said = audited(tmp_path, capsys, out=found("numpy", "opendp", vulns=known), code=1)
    assert code == 1
    assert "numpy 1: PYSEC-1, fixed in 2.5" in said


@pytest.mark.parametrize(
    "said",
    [
        {"err": "ERROR: Could not connect to PyPI's vulnerability feed\n", "code": 1}, {"code": 1}, {"out": "{}"},
        {"out": "oops"}, {"out": found("numpy")}, {"out": found("numpy", "opendp", skip_reason="not on PyPI")},
    ],
)  # fmt: skip
def test_what_was_not_looked_for_is_never_called_fine(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], said: dict[str, Any]
) -> None:
    code, text = audited(tmp_path, capsys, **said)
    assert code == 2
    assert "NOT CHECKED" in text


def test_the_makefile_has_both_and_the_pages_name_them() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    page = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    for target in ("sbom", "audit"):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE)
        assert f"make {target}" in page
    for said in (
        "What to report",
        "How to report",
        "Supported versions",
        "docs/explanation/security.md",
        "docs/proofs",
    ):
        assert said in page
