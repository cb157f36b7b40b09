"""The models of CP-SAT: the only place that knows the solver."""
