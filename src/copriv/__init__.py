"""copriv: the cost of privacy, before you pay it.

    agreement = copriv.Agreement.load("agreement.toml")
    result = copriv.simulate(agreement, runs=100)
    print(result.relative_fitness.final)

| to                                  | use                                                            |
| ----------------------------------- | -------------------------------------------------------------- |
| read what the parties sign up to    | `Agreement`                                                    |
| know before you start               | `forecast` → `Forecast`                                        |
| who joins, and who pays whom        | `market` → `Market`                                            |
| try it on records at hand           | `simulate`, `own_learners` → `Simulation`; `Problem`, `Records` |
| answer queries about private records | `Owner`: `Query` in, `Answer` out                              |
| catch what goes wrong               | `CoprivError` and its children (copriv.errors)                 |

By scikit-learn's conventions: copriv.estimators. Everything else has its place one level down: copriv.data,
copriv.privacy, copriv.rules, copriv.schedules.
Names load on first use, so that nobody waits for a part that is not used: `__init__.pyi` says where each comes from.
"""

from importlib.metadata import version

import lazy_loader

__version__ = version("copriv")
__getattr__, __dir__, _names = lazy_loader.attach_stub(__name__, __file__)

__all__ = [
    "__version__",
    *(
        name
        for name in _names
        if name not in ("data", "errors", "estimators", "losses", "privacy", "rules", "schedules")
    ),
]
