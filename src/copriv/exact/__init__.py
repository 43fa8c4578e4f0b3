"""What the squared loss allows to be said exactly, at a finite T: mean and variance of f(θ_k) without a single run.

`moments` has what goes in and what comes out; `synchronous` is S1 and S2; `asynchronous` is A1 and A2, of
`asynchronous_events`, `asynchronous_mean` and `asynchronous_variance`; `reduced_runs` draws what is out of reach.
"""
