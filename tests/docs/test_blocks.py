"""Every block of code on every page does what the page says: commands run, files are read, names are there."""

import json
import re
import tomllib
from collections import Counter

import pytest
import typer

from copriv.cli import app
from docs_blocks import PAGES, ROOT, blocks, is_slow, run_page

ALL = [block for page in PAGES for block in blocks(page)]
WITH_COMMANDS = [page for page in PAGES if any(b.is_commands and "no-run" not in b.said for b in blocks(page))]
LANGUAGES = {"python", "sh", "console", "toml", "json", "ini", "text", "math", "mermaid"}


def name(page):
    return page.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", WITH_COMMANDS, ids=name)
def test_commands_print_what_the_page_says(page, tmp_path):
    run_page(page, tmp_path, slow=False)


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in WITH_COMMANDS if is_slow(page)], ids=name)
def test_commands_that_take_longer_print_what_the_page_says(page, tmp_path):
    assert run_page(page, tmp_path, slow=True) > 0


@pytest.mark.parametrize("block", ALL, ids=lambda block: block.place)
def test_a_block_is_of_a_kind_that_is_checked(block):
    assert block.language in LANGUAGES, f"{block.place}: say what it is, one of {sorted(LANGUAGES)}"
    if block.language == "python":
        assert block.body.startswith(">>> "), f"{block.place}: begin lines with >>>, so that they are run"
        assert block.body.endswith("\n\n"), f"{block.place}: leave a line free before the fence ends, for doctest"
    elif block.language == "toml":
        tomllib.loads(block.body)
    elif block.language == "json":
        json.loads(block.body)


def test_no_code_hides_in_an_indented_block():
    for page in PAGES:
        lines = page.read_text(encoding="utf-8").splitlines()
        for k, line in enumerate(lines[1:], start=1):
            hidden = line.startswith("    ") and not lines[k - 1].strip() and re.match(r" +(>>> |\$ |copriv )", line)
            assert not hidden, f"{name(page)}:{k + 1}: put it between ``` fences, where it is run"


def test_what_is_not_run_says_why_and_is_little():
    left_out = [block for block in ALL if "no-run" in block.said]
    for block in left_out:
        assert len(block.said["no-run"][0].split()) >= 3, f"{block.place}: say why it is not run"
        assert block.is_commands, block.place
    kinds = Counter(block.language for block in ALL)
    print(f"{len(ALL)} blocks {dict(kinds)}, {len(left_out)} not run")
    # A doctest or a command that runs is the rule: one more that does not has to be argued for here.
    assert len(left_out) <= 12
    assert kinds["python"] >= 35


COMMAND = typer.main.get_command(app)


def known(words):
    """The command that some words name, and what is left of them."""
    command = COMMAND
    while words and hasattr(command, "get_command") and (child := command.get_command(None, words[0])) is not None:
        command, words = child, words[1:]
    return command, words


def spans():
    for page in PAGES:
        text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
        for span in re.findall(r"`(copriv [a-z][^`\n]*)`", text):
            yield page, span


def test_every_command_that_a_sentence_names_is_there_with_its_options():
    seen = 0
    for page, span in spans():
        command, rest = known(re.sub(r"[\[\]]", " ", span).split()[1:])
        assert command is not COMMAND, f"{name(page)}: `{span}` names no command"
        options = {option for parameter in command.params for option in parameter.opts} | {"--help"}
        for option in re.findall(r"(?<!\S)--[a-z][a-z-]*", " ".join(rest)):
            assert option in options, f"{name(page)}: `{span}` has an option that {command.name} does not have"
        seen += 1
    assert seen > 60


def test_every_target_of_make_that_a_page_names_is_there():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    typed = [(block.page, command) for block in ALL if block.is_commands for command, _ in block.commands]
    spoken = [(page, span) for page in PAGES for span in re.findall(r"`(make [a-z-]+)", page.read_text("utf-8"))]
    named = [(page, words.split()[1]) for page, words in [*typed, *spoken] if words.startswith("make ")]
    assert len(named) > 10
    for page, target in named:
        assert re.search(rf"^{target}:", makefile, re.M), f"{name(page)}: make {target}"
