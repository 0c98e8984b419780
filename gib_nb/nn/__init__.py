"""Networks: backbones, the bottleneck, classifiers, and poolings."""
