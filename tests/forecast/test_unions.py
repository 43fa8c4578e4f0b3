"""Five credit unions with tables of their own: nobody large gains on its own records, and nobody is told so with a tick."""

from pathlib import Path

import pytest

import copriv
import unions
from copriv.cli.show import forecast as screen


@pytest.mark.slow
@pytest.mark.parametrize("strata", [False, True])
def test_the_verdict_is_about_own_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, strata: bool) -> None:
    path = unions.write(tmp_path, strata)
    monkeypatch.chdir(tmp_path)
    outlook = copriv.forecast(path)
    said = {owner.name: owner.verdict for owner in outlook.owners}
    assert [said[name] for name in ("Harbour", "Northside", "Prairie", "Summit")] == ["no"] * 4
    assert said["Valley"] == ("no" if strata else "open")
    assert outlook.joining_pays is (False if strata else None)
    on_all = outlook.owners[0].on_all
    assert on_all.answer == ("yes" if strata else "open"), "the second answer, on everybody's records, is another one"
    first = " ".join(screen.lines(outlook))
    assert ("Joining does not pay for anybody" in first) is strata
    assert ("Whether joining pays is open for Valley" in first) is not strata
