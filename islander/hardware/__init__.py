"""What a node is made of: GPU products, the links between GPUs, and the islands that they form."""
