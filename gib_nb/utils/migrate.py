"""Conversion of old records: keys of results, checkpoints, and shipped assets get their present names.

Input and output are plain JSON, and no large library is imported. To rename a key, add a line to `KEYS`, or to `BY_CONTEXT` if the old key had several meanings.
"""

KEYS = {  # old key -> new key, anywhere in a record
    "nodes_kept": "selected_fraction",
    "kept_nodes": "selected_fraction",
    "mean_probability": "mean_node_mask",
    "one_piece": "connected_fraction",
    "pieces": "components",
    "label_information": "label_mi_bound",
    "graph_information": "graph_mi",
    "graph_information_error": "graph_mi_error",
    "surroundings": "environment",
    "most": "max_explained",
    "frontier": "bias_vs_size",
    "log_n": "log_num_pairs",
    "structure-blind": "no-edges baseline",
    "GIN+GIB, learned prior": "GIN+GIB, edge prior",
    "GIB, apart": "GIB, two-stage",
    "collapse_apart": "collapse_two_stage",
    "no closing": "no fine-tuning",
    "all of it": "complete",
    "one reader": "one classifier",
    "generator sees features alone": "mask from node features alone",
    "generator sees two edges far": "mask from two layers",
    "nodes, not edges": "node mask",
    "no chance": "no sampling",
    "critic, no prior": "critic instead of the prior",
    "classifier learns along": "trained jointly",
    "classifier never saw a mask": "classifier never trained on masks",
}

BY_CONTEXT = {  # old key -> (new key, keys of which one is in the same dict); the first match counts
    "kept": (
        (
            "selected_fraction",
            {"undecided", "recall", "accuracy_whole", "curves"},
        ),  # fragments of a model; edges; an ablation; a training of the stability explorer
        ("fragment_fraction", {"invalid", "share", "ratio"}),  # interpretation: of the largest fragments
        ("selected", {"real"}),  # which edges of an example
        (
            "mean_node_mask",
            {"classification", "accuracy", "connectivity"},
        ),  # history of a training, its curves, outcomes of inner steps
    ),
    "share": (("ratio", {"bias"}), ("fragment_fraction", {"fragment"})),
    "empty": (("empty_fraction", {"one_piece", "connected_fraction", "undecided", "curves"}),),
    "true_nodes": (("true_fraction", {"one_piece", "connected_fraction"}),),
    "factor": (("loss_weight", {"epoch"}),),
    "warmup": (
        ("pretrain_epochs", {"curves"}),
    ),  # of a training of the stability explorer; settings of trainers are migrated by `train.migrate`
    "ramp": (("rampup_epochs", {"curves"}),),
    "form": (("spec", {"config"}),),
    "mean": (("y_mean", {"in_channels"}),),
    "spread": (("y_std", {"in_channels"}),),
}

VALUES = {  # present key -> old value -> new value
    "method": {
        "structure-blind": "no-edges baseline",
        "sampled GIB, untaught": "sampled GIB, trained on wholes",
        "GIN+GIB, learned prior": "GIN+GIB, edge prior",
        "GIN+GIB, learned prior, β = 0": "GIN+GIB, edge prior, β = 0",
    },
    "network": {"structure_blind": "no_edges"},
}


def new_key(
    key: str,
    beside,  # all keys of the same dict
) -> str:
    "The present name of a key; an unknown key is kept."
    if key in BY_CONTEXT:
        return next((new for new, signs in BY_CONTEXT[key] if not signs.isdisjoint(beside)), key)
    return KEYS.get(key, key)


def migrate(
    record,  # plain JSON: dicts, lists, texts, numbers
):  # a copy
    "A record with the present names, at any depth. Unknown keys are kept, and a second migration changes nothing."
    if isinstance(record, dict):
        renamed = {new_key(key, record.keys()): migrate(value) for key, value in record.items()}
        return {key: _value(key, value) for key, value in renamed.items()}
    if isinstance(record, list):
        return [migrate(entry) for entry in record]
    return record


def _value(key, value):
    "A value with its present name; `methods` is a list of values of `method`."
    if key == "methods" and isinstance(value, list):
        return [_value("method", entry) for entry in value]
    return VALUES[key].get(value, value) if key in VALUES and isinstance(value, str) else value
