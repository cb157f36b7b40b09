"""What the API server and Kueue refuse, or accept and never act on, as functions over plain objects."""
