"""What explanations are worth, and those of molecules, of attention and of PyG."""
