"""Open a ledger, and look at the papers' figures, as a person does."""

import pytest

from page_server import until

pytestmark = pytest.mark.browser


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


def test_epsilon_moves_a_transient(visitor):
    page = visitor.enter("gallery")
    assert page.locator("#figures article").count() == 21
    until(page, "document.querySelector('#ends').textContent.includes('it ends')", 60)
    first = page.locator("#ends").inner_text()
    page.locator("#epsilon").fill("-1")
    until(page, f"document.querySelector('#ends').textContent !== {first!r}", 60)
    assert "ε = 0.1" in page.locator("#ends").inner_text()
    assert visitor.axe() == []
