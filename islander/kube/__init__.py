"""The room of the Kubernetes API: the only one that imports the official client."""
