"""Starts, drives and stops a real control plane on loopback."""
