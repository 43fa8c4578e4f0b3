"""The rules' linear recursions by the labels that tests go through: "S2 last" is S2 without its average."""

from copriv.rules.async_copies import a1_recursion
from copriv.rules.recursion import InRounds, Recursion, WithMemory
from copriv.rules.sync_averaged import s2_average, s2_steps
from copriv.rules.sync_decay import s1_steps


def recursion_of(rule: str, step: float, horizon: int) -> Recursion:
    """The recursion of a rule of this step over this horizon."""
    return {
        "S1": lambda: InRounds(s1_steps(step, horizon)),
        "S2": lambda: InRounds(s2_steps(step, horizon), s2_average(horizon)),
        "S2 last": lambda: InRounds(s2_steps(step, horizon)),
        "A1": lambda: a1_recursion(step, horizon),
        "A2": lambda: WithMemory(step),
    }[rule]()
