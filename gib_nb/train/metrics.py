"""Metrics of predictions, from scikit-learn, with bootstrap intervals over the graphs."""

import warnings
from typing import Any, NamedTuple


class Metric(NamedTuple):
    "A metric of predictions. Its function takes labels and what the metric needs: classes, scores of classes, or values."

    title: str
    task: str  # "classification" or "regression"
    needs: str  # "classes" [N], "scores" [N, C], or "values" [N]
    function: str  # of `sklearn.metrics`, or "spearman"
    settings: dict = {}  # of that function
    lower_is_better: bool = False


METRICS: dict[str, Metric] = {
    "accuracy": Metric("accuracy", "classification", "classes", "accuracy_score"),
    "balanced_accuracy": Metric("balanced accuracy", "classification", "classes", "balanced_accuracy_score"),
    "roc_auc": Metric("ROC-AUC", "classification", "scores", "roc_auc_score"),
    "average_precision": Metric("average precision", "classification", "scores", "average_precision_score"),
    "mcc": Metric("Matthews correlation", "classification", "classes", "matthews_corrcoef"),
    "f1": Metric("F1", "classification", "classes", "f1_score", {"zero_division": 0.0}),
    "rmse": Metric("RMSE", "regression", "values", "root_mean_squared_error", lower_is_better=True),
    "mae": Metric("MAE", "regression", "values", "mean_absolute_error", lower_is_better=True),
    "r2": Metric("R²", "regression", "values", "r2_score"),
    "spearman": Metric("Spearman correlation", "regression", "values", "spearman"),
}
REPEATS = 200  # bootstrap samples
METRIC_NAMES = ("loss", *METRICS)  # measures by which the best epoch can be chosen
MAIN_METRIC = {"classification": "roc_auc", "regression": "r2"}  # the first in tables, if none was chosen


def metrics_for(task: str) -> list[str]:
    "The names of the metrics of a task."
    return [name for name, metric in METRICS.items() if metric.task == task]


def metric_value(
    name: str,
    y,  # [N] class numbers 0 … C−1 or values; [N, T] for several targets, NaN if missing
    prediction,  # [N, C] probabilities or values [N, 1]; [N, T] for several targets
    several: bool = False,
) -> (
    float
):  # NaN if it is not defined, such as ROC-AUC with one class; for several targets the mean over those for which it is
    "The value of a metric of `METRICS` for predictions."
    import numpy as np

    metric = METRICS[name]
    if not several:
        return _single(metric, np.asarray(y).reshape(-1), np.asarray(prediction))
    found = []
    for labels, column in zip(np.asarray(y, float).T, prediction.T):
        seen = ~np.isnan(labels)
        if seen.any():
            column = column[seen][:, None]
            both = np.concatenate([1 - column, column], 1) if metric.task == "classification" else column
            found.append(
                _single(metric, labels[seen].astype(int) if metric.task == "classification" else labels[seen], both)
            )
    found = [value for value in found if np.isfinite(value)]
    return float(np.mean(found)) if found else float("nan")


def _single(metric: Metric, y, prediction) -> float:
    "A metric of one target."
    import numpy as np
    import sklearn.metrics

    if metric.needs == "values":
        values = prediction[:, 0]
        if metric.function == "spearman":
            return _spearman(y, values)
        return float(getattr(sklearn.metrics, metric.function)(y, values)) if len(y) > 1 else float("nan")
    function, count = getattr(sklearn.metrics, metric.function), prediction.shape[1]
    settings: dict[str, Any] = dict(metric.settings)
    if metric.function == "f1_score" and count > 2:
        settings["average"] = "macro"
    if metric.needs == "classes":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # a bootstrap sample may have only one class
            return float(function(y, prediction.argmax(1), **settings))
    present = np.unique(y)
    if len(present) < 2 or count > 2 and len(present) < count:
        return float("nan")
    if count == 2:
        return float(function(y, prediction[:, 1]))
    if metric.function == "roc_auc_score":
        settings |= {"multi_class": "ovr"}
    return float(function(y, prediction, **settings))


def _spearman(y, values) -> float:
    "Spearman's rank correlation; 0 for constant predictions, NaN for constant labels."
    import numpy as np
    from scipy.stats import spearmanr

    if len(y) < 2 or np.ptp(y) == 0:
        return float("nan")
    return 0.0 if np.ptp(values) == 0 else float(spearmanr(y, values).statistic)


def cost(name: str, value: float) -> float:
    "A number that is lower if the metric is better."
    return value if name == "loss" or METRICS[name].lower_is_better else -value


def bootstrap_interval(
    function,  # rows [N] → number
    size: int,  # N
    repeats: int = 0,  # 0: `REPEATS`
    level: float = 0.95,
    seed: int = 0,
) -> tuple[float, float]:
    "Bootstrap percentile interval of a number, with graphs resampled with replacement; NaN if it cannot be computed."
    import numpy as np

    random = np.random.default_rng(seed)
    found = np.array([function(random.integers(0, size, size)) for _ in range(repeats or REPEATS)])
    found = found[np.isfinite(found)]
    if not len(found):
        return float("nan"), float("nan")
    low, high = np.quantile(found, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def metric_table(
    y,
    prediction,  # as in `metric_value`
    task: str,
    several: bool = False,
    repeats: int = 0,
) -> dict[str, dict]:  # name → {"value", "low", "high"}
    "Every metric of a task, with a 95% bootstrap interval over the graphs."
    import numpy as np

    y, prediction, found = np.asarray(y), np.asarray(prediction), {}
    for name in metrics_for(task):
        of_rows = lambda rows: metric_value(name, y[rows], prediction[rows], several)
        value = of_rows(np.arange(len(y)))
        low, high = bootstrap_interval(of_rows, len(y), repeats) if np.isfinite(value) else (value, value)
        found[name] = {"value": value, "low": low, "high": high}
    return found
