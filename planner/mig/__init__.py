"""Plans of MIG layouts: which GPUs are cut into which instances, and what must drain first."""
