"""A forecast's verdict as the pages word it, and the numbers in a text of any of their languages."""

import re
from typing import Any

from copriv.display.sentences import SHOWN
from copriv.ui.shell import texts


def rendered(said: dict[str, Any], language: str) -> str:
    """A sentence of a view by the page's texts, with numbers as in English."""
    values = {
        blank: rendered(one, language) if isinstance(one, dict) else SHOWN[one[0]](*one[1:])
        for blank, one in said["values"].items()
    }
    return texts(language)[f"verdict.{said['key']}"].format_map(values)


def numbers(text: str, language: str = "en") -> set[float]:
    """All numbers in a text: "0.50 %" and "0,5 %" are one."""
    thousands, point = {"en": ",.", "de": ".,"}[language]
    found = re.findall(r"\d[\d.,]*\d|\d", text)
    return {float(one.replace(thousands, "").replace(point, ".")) for one in found}
