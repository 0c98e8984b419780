"""Values as text."""


def label_text(
    label,  # a number, a word, or a list of several targets
    digits: int = 4,
) -> str:
    "A label or value as text; of several targets with commas between them, and - where one is missing."
    if isinstance(label, (list, tuple)):
        return ", ".join(label_text(each, digits) for each in label)
    if label is None or label != label:
        return "-"
    return f"{label:.{digits}g}" if isinstance(label, float) else str(label)
