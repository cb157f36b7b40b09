"""Where a replica may go and where it should go: pure functions over hardware and cluster values."""
