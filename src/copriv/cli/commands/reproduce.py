"""`copriv reproduce`: brought by the plug-in copriv-papers, which holds the papers' experiments."""

from importlib.metadata import entry_points
from typing import Any

from copriv.errors import UsageError


def __getattr__(name: str) -> Any:
    """`command` of the plug-in, looked for when it is called. Raises UsageError where the plug-in is not installed."""
    if name != "command":
        raise AttributeError(name)
    for brought in entry_points(group="copriv.reproduce", name=name):
        return brought.load()
    raise UsageError(
        "reproduce: the papers' experiments are a package of their own, which is not installed here; "
        "install it with: pip install copriv-papers"
    )
