"""The state of a cluster as values: nodes, pods, workloads, and the snapshot that holds them."""
