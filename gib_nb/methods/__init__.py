"""Published methods that are related to the graph information bottleneck, each with its new part and its recipe."""
