"""Open a ledger, and look at the papers' figures, as a person does."""

import re
from fractions import Fraction

import pytest

from copriv.privacy.ledger.lines import START, Entry
from copriv_papers import BEYOND, FIGURES
from page_server import as_process, until
from signed_run import damaged, signed_run

pytestmark = pytest.mark.browser

EVERY = len((*FIGURES, *BEYOND))


def test_a_ledger_is_opened_and_read(visitor, ledger):
    page = visitor.enter("ledger")
    page.locator("#open").set_input_files(
        {"name": "data.ledger", "mimeType": "application/octet-stream", "buffer": ledger}
    )
    page.get_by_text("Whole: every line").wait_for()
    assert "0.75 of 2" in page.locator("#sums").inner_text()
    assert page.locator("main b").count() == 0
    assert visitor.axe() == []
    broken = ledger.replace(b"charge", b"answer", 1)
    page.locator("#open").set_input_files({"name": "x", "mimeType": "application/octet-stream", "buffer": broken})
    page.get_by_text("Not whole:").wait_for()


def given(*contents):
    """Files as a person chooses them together."""
    return [{"name": f"file-{i}", "mimeType": "application/octet-stream", "buffer": b} for i, b in enumerate(contents)]


def test_a_broken_ledger_says_which_line_and_shows_it(visitor, ledger):
    lines = ledger.split(b"\n")
    charge = max(i for i, line in enumerate(lines) if b'"charge"' in line)
    lines[charge] = lines[charge].replace(b'"epsilon":"1/4"', b'"epsilon":"1/8"')
    page = visitor.enter("ledger")
    page.locator("#open").set_input_files(given(b"\n".join(lines)))
    page.locator("#problems", has_text=f"line {charge + 1} does not continue the chain").wait_for()
    page.get_by_role("button", name=f"Go to line {charge + 1}").click()
    page.locator("#lines .wrong", has_text="wrong").wait_for()
    assert page.evaluate("document.activeElement.className") == "scroller"
    assert visitor.axe() == []


def test_the_report_of_a_ledger_is_saved(visitor, ledger, tmp_path):
    page = visitor.enter("ledger")
    page.locator("#open").set_input_files([{**given(ledger)[0], "name": "bank-1.ledger"}])
    with page.expect_download() as found:
        page.get_by_role("button", name="Save the report").click()
    found.value.save_as(tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "What left" in text
    assert "bank-1.ledger" in text
    assert "<b>bank</b>" not in text
    assert "<script" not in text


def test_an_older_copy_is_noticed_by_a_head_that_was_written_down(visitor, ledger):
    page = visitor.enter("ledger")
    page.locator("#open").set_input_files(given(ledger))
    head = page.locator("#head code").inner_text()
    page.locator("#open").set_input_files(given(b"".join(line + b"\n" for line in ledger.split(b"\n")[:-3])))
    page.get_by_text("Whole: every line").wait_for()
    page.get_by_label("A head that you wrote down").fill(head)
    page.keyboard.press("Tab")
    page.locator("#problems", has_text="older copy").wait_for()


def test_a_run_is_checked_against_what_the_reader_has(visitor, tmp_path):
    path, agreed, held = signed_run(tmp_path)
    page = visitor.enter("ledger")
    page.locator("#open").set_input_files(given(path.read_bytes()))
    page.get_by_text("Whole: every line follows").wait_for()
    assert "The authority is the one that the file names" in page.locator("#held").inner_text()
    page.locator("#open").set_input_files(
        given(path.read_bytes(), agreed.to_toml().encode(), held["learner"].authority)
    )
    page.get_by_text("Signatures are by certificates of the authority that you gave.").wait_for()
    assert "to the last bit" in page.locator("#whole").inner_text()
    assert page.locator("#runs tr").count() == 3
    assert page.locator("#timeline svg path.edge").count() == 1
    text = page.locator("#lines").inner_text()
    assert "question 1" in text
    assert "CERTIFICATE" not in page.content()
    assert visitor.axe() == []
    page.locator("#open").set_input_files(given(damaged(path)))
    page.get_by_text("Not whole:").wait_for()
    page.get_by_role("button", name="Go to line").first.click()
    page.locator("#lines .wrong").wait_for()
    visitor.complaints = [one for one in visitor.complaints if "422" not in one]


@pytest.mark.parametrize(
    "content", [b"", b"\x00" * 1000, b"SQLite format 3\x00" * 9, b"[" * 100_000, b"<script>alert(1)</script>"]
)
def test_a_file_that_is_none_is_answered_in_words(visitor, content):
    page = visitor.enter("ledger")
    page.locator("#open").set_input_files(given(content))
    page.locator("#said", has_text="this is no").wait_for()
    assert not page.locator("#found").is_visible()
    page.wait_for_timeout(200)
    visitor.complaints = [one for one in visitor.complaints if "422" not in one]  # the browser's own line on a refusal


def test_a_ledger_of_a_hundred_thousand_lines_is_read_where_it_is_looked_at(visitor, tmp_path):
    page = visitor.enter("ledger")
    path = tmp_path / "long.ledger"
    path.write_bytes(long_ledger(100_000))
    page.locator("#open").set_input_files(path)
    page.get_by_text("100,000 lines.").wait_for(timeout=120_000)
    assert page.locator("#lines [role=listitem]").count() < 50
    assert page.evaluate("document.querySelectorAll('*').length") < 1500
    page.evaluate("document.querySelector('#lines .scroller').scrollTop = 36 * 99_990")
    page.locator("#lines [aria-posinset='99999']").wait_for()


def long_ledger(n):
    """A ledger of n lines, made without the flush to the disk that every line of a real one waits for."""
    lines, head = [], START
    kinds = [Entry("ledger", identity="long"), Entry("lifetime", identity="long", epsilon=Fraction(n)),
             Entry("run", "f" * 64, "r" * 32, epsilon=Fraction(n), content=str(n))]  # fmt: skip
    for i in range(n):
        charge = Entry("charge", "f" * 64, "r" * 32, f"{i:064x}", Fraction(1), content="0" * 64)
        line = (kinds[i] if i < len(kinds) else charge).after(i, head)
        head = line.hash
        lines.append(line.to_bytes())
    return b"".join(lines)


def test_every_figure_stands_with_its_claim_and_verdict(visitor):
    page = visitor.enter("gallery")
    cards = page.locator("#figures article")
    assert cards.count() == EVERY
    for i in range(EVERY):
        text = cards.nth(i).inner_text()
        assert "The paper’s claim" in text
        assert re.search("reproduced|beyond the papers", text), text
    assert page.locator("#figures img").count() == EVERY
    first = page.locator("#figures img").first
    first.scroll_into_view_if_needed()
    until(page, "document.querySelector('#figures img').naturalWidth > 300")


def test_a_gallery_that_has_nothing_says_so(visitors, tmp_path):
    with as_process("ui", "--no-browser", "--figures", tmp_path, log=tmp_path / "log") as (address, _):
        page = visitors(address).enter("gallery")
        assert page.get_by_text("No picture of it is here").count() == EVERY
        assert page.get_by_text("Not known here").count() == EVERY


def test_epsilon_moves_a_transient(visitor):
    page = visitor.enter("gallery")
    assert page.locator("#figures article").count() == EVERY
    until(page, "document.querySelector('#ends').textContent.includes('it ends')", 60)
    first = page.locator("#ends").inner_text()
    page.locator("#epsilon").fill("-1")
    until(page, f"document.querySelector('#ends').textContent !== {first!r}", 60)
    assert "ε = 0.1" in page.locator("#ends").inner_text()
    assert visitor.axe() == []
