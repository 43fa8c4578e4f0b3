"""The texts of all pages: one JSON file a language, with the same keys; nothing is written anywhere else."""

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

LANGUAGES = {"en": "English", "de": "Deutsch"}
"""Code, and the language's name for itself."""


@cache
def texts(language: str) -> Mapping[str, str]:
    """Every text of one of LANGUAGES by its key, such as "join.title"."""
    written: dict[str, Any] = json.loads(source(language))
    return {f"{part}.{key}": text for part, entries in written.items() for key, text in entries.items()}


def source(language: str) -> str:
    """The file itself, as the browser reads it."""
    return files("copriv.ui").joinpath("texts", f"{language}.json").read_text(encoding="utf-8")


def preferred(cookie: str | None, accepted: str) -> str:
    """The language that was chosen, else the first that the browser would like (Accept-Language), else English."""
    if cookie in LANGUAGES:
        return cookie
    wanted = [part.split(";")[0].strip().lower()[:2] for part in accepted.split(",")]
    return next((language for language in wanted if language in LANGUAGES), "en")
