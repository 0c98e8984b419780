"""Conversion of old files: settings, models, and checkpoints from versions in which a configuration was one flat record."""

import dataclasses

from gib_nb.train.config import GIBConfig, config_to_dict, configure
from gib_nb.train.parts import Bottleneck, EdgeMask, Finetune, Pooled, Pretrain, Prior, Reencode
from gib_nb.utils.migrate import migrate as migrate_keys

NEGATIVES = {"perm": "permute", "dedup": "unique"}  # old name → present name
_PLAIN = {
    "backbone": "encoder",
    "hidden_channels": "hidden_channels",
    "num_layers": "num_layers",
    "dropout": "dropout",
    "norm": "norm",
    "readout": "readout",
    "assign": "mask_on",
    "generator_layers": "generator_num_layers",
    "stochastic": "sample_mask",
    "alpha": "alpha",
    "beta": "beta",
    "epochs": "epochs",
    "warmup": "pretrain_epochs",
    "ramp": "rampup_epochs",
    "closing": "finetune_epochs",
    "patience": "patience",
    "independent": "two_stage",
    "batch_size": "batch_size",
    "learning_rate": "lr",
    "weight_decay": "weight_decay",
    "restarts": "max_restarts",
    "threshold": "threshold",
    "device": "device",
    "seed": "seed",
}
_CRITIC = {
    "inner_steps": "num_steps",
    "negatives": "negatives",
    "memory": "memory_bank",
    "reset_critic": "reinit_critic",
    "critic_batch_size": "critic_batch_size",
    "critic_hidden": "critic_hidden_channels",
    "critic_learning_rate": "critic_lr",
}
_OURS = {
    "encode_again",
    "readers",
    "mask_features",
    "prior",
    "anneal",
    *_PLAIN,
    *_CRITIC,
}  # all settings of the old format


def settings_of_before(
    old: dict,  # settings in the old format, all or some of them
    frozen: bool = False,  # whether they are of a model that explained another one
) -> dict:
    "Settings for `configure`. Old settings that had no effect, such as the critic's with a prior, are left out; unknown keys are kept."
    new = {name: value for name, value in old.items() if name not in _OURS}
    new |= {name: old[before] for before, name in _PLAIN.items() if before in old}
    again = old.get("encode_again", False)
    if frozen or "encode_again" in old:
        new["classifier"] = "frozen" if frozen else "reencode" if again else "pooled"
    if again and "readers" in old:
        new["num_classifiers"] = old["readers"]
    if (again or frozen) and "mask_features" in old:
        new["mask_features"] = old["mask_features"]
    if "anneal" in old:
        new["lr_schedule"] = "cosine" if old["anneal"] else "constant"
    if old.get("prior") is not None:
        return new | {"prior_prob": old["prior"]}
    new |= {name: old[before] for before, name in _CRITIC.items() if before in old}
    return new | {
        name: change(new[name])
        for name, change in (
            ("negatives", lambda value: NEGATIVES.get(value, value)),
            ("memory_bank", lambda value: value in (True, "bank")),
        )
        if name in new
    }


def migrate_config(old: dict, frozen: bool = False) -> dict:
    "The JSON of a configuration, converted from the old format; one in the present format is returned unchanged."
    if "optim" in old:
        return old
    custom = old.get("backbone") == "custom"
    new = config_to_dict(configure(**settings_of_before(old | ({"backbone": "gin"} if custom else {}), frozen)))
    return new | ({"encoder": new["encoder"] | {"name": "custom"}} if custom else {})


def migrate(record: dict) -> dict:
    "A record of a model, a history, or a row of results with the present names."
    if "explained" in record:
        record = {("model" if name == "explained" else name): value for name, value in record.items()}
    record = migrate_keys(record)
    if isinstance(config := record.get("config"), dict) and "alpha" in config:
        record = record | {"config": migrate_config(config, record.get("post_hoc", False))}
    return record


def settings_before(config: GIBConfig) -> dict:
    "The settings of a configuration in the old format, which identify old checkpoints; an empty dict if the old format cannot express it."
    if config.optim.max_grad_norm is not None or (
        isinstance(config.classifier, Pooled)
        and (isinstance(config.mask, EdgeMask) or config.mask.sample or config.mask.num_layers is not None)
    ):
        return {}
    critic, again, epochs = (
        dataclasses.replace(configure().information),
        isinstance(config.classifier, Reencode),
        lambda kind: sum(phase.epochs for phase in config.phases if isinstance(phase, kind)),
    )
    prior = config.information.prob if isinstance(config.information, Prior) else None
    critic = critic if prior is not None else config.information
    main = next(phase for phase in config.phases if isinstance(phase, Bottleneck))
    encoder, optim = config.encoder.to_dict(), config.optim
    old = {
        "backbone": encoder["name"],
        **{name: encoder[name] for name in ("hidden_channels", "num_layers", "dropout", "norm", "readout")},
        "encode_again": again,
        "readers": config.classifier.num_models if again else 1,
        "assign": config.mask.word,
        "generator_layers": config.mask.num_layers,
        "stochastic": config.mask.sample,
        "independent": main.train_mask_only,
        "alpha": config.alpha,
        "beta": config.beta,
        "prior": prior,
        "inner_steps": critic.num_steps,
        "negatives": {new: before for before, new in NEGATIVES.items()}.get(critic.negatives, critic.negatives),
        "memory": "bank" if critic.memory_bank else "batch",
        "reset_critic": critic.reinit,
        "critic_batch_size": critic.batch_size,
        "critic_hidden": critic.hidden_channels,
        "critic_learning_rate": critic.lr,
        "epochs": config.epochs,
        "warmup": epochs(Pretrain),
        "ramp": main.rampup,
        "closing": epochs(Finetune),
        "patience": main.patience,
        "batch_size": optim.batch_size,
        "learning_rate": optim.lr,
        "anneal": optim.lr_schedule == "cosine",
        "weight_decay": optim.weight_decay,
        "restarts": config.max_restarts,
        "threshold": config.threshold,
        "device": config.device,
        "seed": config.seed,
    }
    return old | ({"mask_features": True} if getattr(config.classifier, "mask_features", False) else {})


_TENSORS = {
    "optimiser.": "optimizer.",
    "critic": "information.critic",
    "inner.first": "information.first",
    "inner.second": "information.second",
    "bank.pairs": "information.pairs",
    "bank.filled": "information.filled",
    "random.run": "random.batches",
    "random.torch": "random.cpu",
}  # old beginning of a name → present beginning


def migrate_checkpoint(tensors: dict, record: dict, config: GIBConfig) -> tuple[dict, dict]:
    "A checkpoint converted from the old format; one in the present format is returned unchanged."
    run = record.get("run")
    record = record | {
        "attempts": [attempt | {"history": migrate_keys(attempt["history"])} for attempt in record.get("attempts", [])]
    }
    if run is None or "phase_index" in run:
        return tensors, record
    renamed = lambda name: next(
        (new + name.removeprefix(old) for old, new in _TENSORS.items() if name.startswith(old)), name
    )
    index, epoch = 0, run["epoch"]
    while index < len(config.phases) and epoch >= config.phases[index].epochs:
        index, epoch = index + 1, epoch - config.phases[index].epochs
    history = migrate_keys({"steps": run["steps"], "epochs": run["epochs"]})
    counted = [
        row["epoch"]
        for row in history["epochs"]
        if row["epoch"] > run["best_epoch"] and index < len(config.phases) and row["epoch"] >= run["epoch"] - epoch
    ]
    wait = (
        sum(config.phases[index].loss_weight(number - (run["epoch"] - epoch)) == 1 for number in counted)
        if counted
        else 0
    )
    new = {
        "epoch": run["epoch"],
        "phase_index": index if run["going"] else len(config.phases),
        "phase_epoch": epoch,
        "stop_training": False,
        "information": {"count": run["inner_count"]},
        "callbacks": {"history": history, "best": {"best": run["best"], "best_epoch": run["best_epoch"], "wait": wait}},
    }
    return {renamed(name): value for name, value in tensors.items()}, record | {"run": new}
