"""The review page of a plan: one HTML file that needs nothing from outside."""
