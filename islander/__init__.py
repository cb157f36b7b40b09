"""The shared core of Islander: hardware, cluster state and placement policy, without I/O (except `islander.kube`)."""
