"""The planner: the command line that operators bring to a review."""
