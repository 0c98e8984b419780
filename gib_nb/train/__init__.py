"""Training: of a bottleneck, and of networks without one."""
