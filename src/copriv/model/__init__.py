"""The model that is trained: records as numbers, the feasible set, the fitness and its solvers."""
