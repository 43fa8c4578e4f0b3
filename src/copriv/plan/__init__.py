"""The terms that cost the least, chosen from public information only: `plan`.

Every setting (`candidates`) has a price by a table (`prices`); the cheapest few are run on
the public rows (`planner`; `one_answer` for mechanisms of one answer), and those that owners who differ would
break are left out (`minimax_regret`). `plan_result` is what comes of it, and the curve that owners are valued by.
"""

from copriv.mechanisms.gradients import noise_of
from copriv.plan.candidates import leaves_open
from copriv.plan.one_answer import plan_one_answer
from copriv.plan.plan_result import Choice, NoiseCurve, Plan
from copriv.plan.planner import plan

__all__ = ["Choice", "NoiseCurve", "Plan", "leaves_open", "noise_of", "plan", "plan_one_answer"]
