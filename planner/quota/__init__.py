"""Kueue quotas that can really be placed: capacity, findings, recommendation."""
