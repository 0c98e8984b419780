"""Values as text."""


def label_text(
    label,  # a number, a word, or a list of several targets
    digits: int = 4,
) -> str:
    "A label or value as text; several targets are separated by commas, and a missing one is -."
    if isinstance(label, (list, tuple)):
        return ", ".join(label_text(each, digits) for each in label)
    if label is None or label != label:
        return "-"
    return f"{label:.{digits}g}" if isinstance(label, float) else str(label)
