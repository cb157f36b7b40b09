"""Tests on a real control plane that runs as local processes."""
