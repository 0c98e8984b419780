"""Explanations: of molecules, by attention and by PyG, and how they are scored and audited."""
