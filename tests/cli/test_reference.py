"""An undocumented command, option or key fails the build; so does one that is documented and not there."""

import re
from pathlib import Path

import pytest
import typer

from copriv.agreement import Agreement, DataTerms, ModelTerms, OwnerTerms, Terms
from copriv.cli import app
from copriv.cli import commands as listed
from copriv.cli.commands import COMMANDS as LISTED

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"
COMMAND_LINE = (REFERENCE / "command-line.md").read_text(encoding="utf-8")
AGREEMENT_FILE = (REFERENCE / "agreement-file.md").read_text(encoding="utf-8")


def commands(command, name):
    """Each command that does something, by its full name."""
    if hasattr(command, "list_commands"):
        for child in (command.get_command(None, short) for short in command.list_commands(None)):
            yield from commands(child, f"{name} {child.name}")
    else:
        yield name, command


COMMANDS = dict(commands(typer.main.get_command(app), "copriv"))


def section(name):
    """All that the reference says under headings that start with this command."""
    parts = re.split(r"^## ", COMMAND_LINE, flags=re.MULTILINE)
    return "".join(part for part in parts if re.match(rf"`{re.escape(name)}[ `]", part))


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_and_option_is_documented(name):
    text = section(name)
    assert text, f"{name} has no section in docs/reference/command-line.md"
    for parameter in COMMANDS[name].params:
        for option in parameter.opts if parameter.param_type_name == "option" else ():
            assert f"`{option}" in text or option in ("--help", "-h"), f"{name} {option}"
        for variable in [parameter.envvar] if isinstance(parameter.envvar, str) else parameter.envvar or ():
            assert f"`{variable}`" in text, f"{name}: {variable}"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_documented_option_is_there(name):
    documented = set(re.findall(r"^\| `(--[a-z-]+)", section(name), flags=re.MULTILINE))
    there = {option for parameter in COMMANDS[name].params for option in parameter.opts}
    assert documented <= there


@pytest.mark.parametrize("name", COMMANDS)
def test_documented_defaults_are_the_defaults(name):
    defaults = {option: p.default for p in COMMANDS[name].params for option in p.opts}
    for option, default in re.findall(r"^\| `(--[a-z-]+)[^|]*\| `COPRIV_\w+` \| `?([\w-]+)`? \|", section(name), re.M):
        assert str(defaults[option]) == default or default in ("off", "nowhere")


def test_every_documented_command_is_there():
    documented = re.findall(r"^## `(copriv [a-z -]+?)(?: [A-Z\[`]|`)", COMMAND_LINE, flags=re.MULTILINE)
    assert set(documented) == set(COMMANDS)


@pytest.mark.parametrize("option", ["--version", "--help", "--install-completion", "--show-completion"])
def test_options_of_the_whole_program(option):
    assert f"`{option}`" in COMMAND_LINE.split("## ")[0]


TABLES = {"`[agreement]`": Terms, "`[model]`": ModelTerms, "`[data]`": DataTerms, "`[[owner]]`": OwnerTerms}


def keys(heading):
    body = AGREEMENT_FILE.split(f"## {heading}\n")[1].split("\n## ")[0]
    return dict(re.findall(r"^\| `(\w+)` \| ([^|]*?) \|", body, flags=re.MULTILINE))


@pytest.mark.parametrize("heading", TABLES)
def test_every_key_of_the_agreement_is_documented_and_no_other(heading):
    assert set(keys(heading)) == set(TABLES[heading].model_fields)
    assert list(keys(heading)) == list(TABLES[heading].model_fields), "in the order of the model"


@pytest.mark.parametrize("heading", TABLES)
def test_documented_defaults_of_keys_are_the_defaults(heading):
    for key, default in keys(heading).items():
        field = TABLES[heading].model_fields[key]
        if field.is_required():
            assert default == "required", key
        elif field.default is None:
            assert not default.startswith("`"), key
        else:
            said = {"true": True, "false": False}.get(default.strip("`"), default.strip('`"'))
            assert said == field.default or float(said) == field.default, key


def test_the_tables_are_all_there():
    names = [field.alias or name for name, field in Agreement.model_fields.items()]
    assert [f"`[{name}]`" if name != "owner" else "`[[owner]]`" for name in names] == list(TABLES)


def test_the_list_of_commands_says_what_their_docstrings_say():
    for name, command in COMMANDS.items():
        assert command.help.split("\n\n")[0].replace("\n", " ") == LISTED[name.removeprefix("copriv ")], name


def test_every_file_of_a_command_is_on_the_list():
    files = {path.stem for path in Path(listed.__file__).parent.glob("*.py")}
    named = {name.split()[1].replace("-", "_") for name in COMMANDS}
    assert files == named | {"__init__", "options", "service"}
