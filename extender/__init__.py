"""The scheduler extender: an HTTP server that kube-scheduler asks for every pod."""
