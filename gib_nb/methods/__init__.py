"""Published relatives of the graph information bottleneck, each with the part that is new in it and its recipe."""
