"""The rules' linear recursions by the labels that tests go through: "S2 last" is S2 without its average."""

from copriv.rules.rule import InRounds, Recursion, WithCopies, WithMemory
from copriv.rules.synchronous import s1_steps, s2_average, s2_steps


def recursion_of(rule: str, step: float, horizon: int) -> Recursion:
    """The recursion of a rule of this step over this horizon."""
    return {
        "S1": lambda: InRounds(s1_steps(step, horizon)),
        "S2": lambda: InRounds(s2_steps(step, horizon), s2_average(horizon)),
        "S2 last": lambda: InRounds(s2_steps(step, horizon)),
        "A1": lambda: WithCopies(step / horizon**2, 0.5),
        "A2": lambda: WithMemory(step),
    }[rule]()
