"""Training of graph information bottlenecks and of networks without one."""
