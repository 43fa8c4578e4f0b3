"""Types and shapes in signatures are checked while tests run: by jaxtyping, with beartype, an int being a float as in typing.

A check costs more than many a small function, and to build one costs milliseconds. So it is built when its function is first
called, functions inside others are left alone, which are made again in every call, and in one test each function is checked in
its first calls only: what a loop calls for the hundredth time has the types of the first.
"""

import ast
import functools
import sys
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import CodeType, ModuleType
from typing import Any

from beartype import BeartypeConf, beartype
from jaxtyping import jaxtyped

CALLS = 3
"""Checked in one test, of each function."""

_by_beartype = beartype(conf=BeartypeConf(is_pep484_tower=True))
_test = 0


def again() -> None:
    """Another test begins: every function is checked again."""
    global _test
    _test += 1


def check(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with its types checked, in its first calls of each test."""
    checked, left, seen = None, CALLS, -1

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        nonlocal checked, left, seen
        if seen != _test:
            left, seen = CALLS, _test
        elif not left:
            return function(*args, **kwargs)
        left -= 1
        checked = checked or jaxtyped(function, typechecker=_by_beartype)
        return checked(*args, **kwargs)

    return called


def check_class(decorated: type) -> type:
    """A class whose values have the types of its fields, if it is a dataclass."""
    if "__dataclass_fields__" in vars(decorated) and "__init__" in vars(decorated):
        decorated.__init__ = check(decorated.__init__)  # type: ignore[misc]
    return decorated


def install(*packages: str) -> None:
    """What is imported from these packages from now on is checked."""
    sys.meta_path.insert(0, _Finder(packages))


class _Finder(MetaPathFinder):
    def __init__(self, packages: Sequence[str]) -> None:
        self.packages = packages

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name.partition(".")[0] not in self.packages:
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            spec.loader = _Loader(spec.loader.name, spec.loader.path)
        return spec


class _Loader(SourceFileLoader):
    def get_code(self, fullname: str) -> CodeType:
        """The module's code with checks, which is never written beside that without them."""
        path = self.get_filename(fullname)
        tree = _Decorated().visit(ast.parse(self.get_data(path), path))
        return compile(ast.fix_missing_locations(tree), path, "exec", dont_inherit=True)


class _Decorated(ast.NodeTransformer):
    """Classes, and functions of modules and of classes, with the decorators above."""

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.ClassDef:
        self.generic_visit(node)
        node.decorator_list.insert(0, _named("check_class", node))  # after `dataclass` has made its `__init__`
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        node.decorator_list.append(_named("check", node))  # the function itself, before `property` and others
        return node


def _named(decorator: str, node: ast.AST) -> ast.expr:
    return ast.copy_location(ast.parse(f"__import__({__name__!r}).{decorator}", mode="eval").body, node)
