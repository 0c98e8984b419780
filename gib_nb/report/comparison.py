"""Does a baseline predict the test graphs better than the model? Paired differences of one metric, and a sentence."""


def compare_outcomes(
    name: str,  # of a metric of `METRICS`
    y,  # labels, as in `metric_value`
    model,  # outcomes, as in `metric_value`
    baselines: dict,  # name → outcomes of the same graphs
    several: bool = False,  # targets
) -> dict:  # "metric", "model": value, "baselines": name → {"value", "better_by", "low", "high"}; better_by > 0 where the baseline is better
    "The difference of each baseline from the model, with a 95% interval from a paired bootstrap over the graphs."
    from gib_nb.train.metrics import bootstrap_interval, cost, metric_value

    value = lambda outcomes, rows: metric_value(name, y[rows], outcomes[rows], several)
    better_by = lambda outcomes, rows: cost(name, value(model, rows)) - cost(name, value(outcomes, rows))
    everything, found = slice(None), {}
    for baseline, outcomes in baselines.items():
        low, high = bootstrap_interval(lambda rows: better_by(outcomes, rows), len(y))
        difference = better_by(outcomes, everything)
        found[baseline] = {"value": value(outcomes, everything), "better_by": difference, "low": low, "high": high}
    return {"metric": name, "model": value(model, everything), "baselines": found}


def comparison_text(
    comparison: dict | None,  # from `compare_outcomes`, None where a number is not finite; None for an older record
) -> str:
    "How the best baseline compares with the model, as sentences; empty if nothing can be compared."
    from gib_nb.train.metrics import METRICS

    baselines = {
        name: each for name, each in (comparison or {"baselines": {}})["baselines"].items() if None not in each.values()
    }
    if not baselines:
        return ""
    name = max(baselines, key=lambda name: baselines[name]["better_by"])
    best, title = baselines[name], METRICS[comparison["metric"]].title
    by, low, high = best["better_by"], best["low"], best["high"]
    if low > 0:
        verdict = f"It predicts better than the model, by {by:.3f} [{low:.3f}, {high:.3f}]: if only the prediction matters, use it."
    elif high < 0:
        verdict = f"The model predicts better, by {-by:.3f} [{-high:.3f}, {-low:.3f}]."
    else:
        verdict = (
            f"Their difference is {abs(by):.3f}, and these test graphs do not show which of the two predicts better."
        )
    return f"The best baseline is “{name}” with {title} {best['value']:.3f}; the model has {comparison['model']:.3f}. {verdict}"
