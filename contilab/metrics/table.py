"""The menu of metrics, in the order of results: name to "module:name", `acc` first.

It stands here and not in `contilab.catalog`, which hands it on, because the metrics lie below the catalog and read it
too. A new metric is one file and one line.
"""

from functools import cache

from contilab.errors import InputError
from contilab.metrics.contract import Metric, misdescribed
from contilab.spec.entry import load

METRICS = {
    "acc": "contilab.metrics.accuracy:ACC",
    "acc_seen_macro": "contilab.metrics.accuracy:ACC_SEEN_MACRO",
    "acc_seen_micro": "contilab.metrics.accuracy:ACC_SEEN_MICRO",
    "acc_all": "contilab.metrics.accuracy:ACC_ALL",
    "acc_validation": "contilab.metrics.accuracy:ACC_VALIDATION",
    "aia": "contilab.metrics.accuracy:AIA",
    "aia_micro": "contilab.metrics.accuracy:AIA_MICRO",
    "learning_accuracy": "contilab.metrics.accuracy:LEARNING_ACCURACY",
    "bwt": "contilab.metrics.transfer:BWT",
    "bwt_all_pairs": "contilab.metrics.transfer:BWT_ALL_PAIRS",
    "fwt": "contilab.metrics.transfer:FWT",
    "fwt_no_baseline": "contilab.metrics.transfer:FWT_NO_BASELINE",
    "forgetting": "contilab.metrics.forgetting:FORGETTING",
    "forgetting_all_rows": "contilab.metrics.forgetting:FORGETTING_ALL_ROWS",
    "forgetting_first_last": "contilab.metrics.forgetting:FORGETTING_FIRST_LAST",
    "forgetting_max_incl_final": "contilab.metrics.forgetting:FORGETTING_MAX_INCL_FINAL",
    "relative_forgetting": "contilab.metrics.forgetting:RELATIVE_FORGETTING",
    "intransigence": "contilab.metrics.transfer:INTRANSIGENCE",
    "ece": "contilab.metrics.calibration:ECE",
    "recency_bias": "contilab.metrics.recency:RECENCY_BIAS",
    "min_acc": "contilab.metrics.stability:MIN_ACC",
    "wc_acc": "contilab.metrics.stability:WC_ACC",
    "wf_10": "contilab.metrics.stability:WF_10",
    "wf_100": "contilab.metrics.stability:WF_100",
    "wp_10": "contilab.metrics.stability:WP_10",
    "wp_100": "contilab.metrics.stability:WP_100",
    "stability_gap": "contilab.metrics.stability:STABILITY_GAP",
    "gap_recovered": "contilab.metrics.stability:GAP_RECOVERED",
    "recovery_steps": "contilab.metrics.stability:RECOVERY_STEPS",
    "never_recovered_share": "contilab.metrics.stability:NEVER_RECOVERED_SHARE",
    "anytime_acc": "contilab.metrics.stability:ANYTIME_ACC",
    "lca_10": "contilab.metrics.learning_curve:LCA_10",
    "probe_acc": "contilab.metrics.representation:PROBE_ACC",
    "representation_forgetting": "contilab.metrics.representation:REPRESENTATION_FORGETTING",
    "cka_final": "contilab.metrics.representation:CKA_FINAL",
    "effective_rank": "contilab.metrics.representation:EFFECTIVE_RANK",
    "dormant_share": "contilab.metrics.representation:DORMANT_SHARE",
    "dead_share": "contilab.metrics.representation:DEAD_SHARE",
    "drift": "contilab.metrics.landscape:DRIFT",
    "drift_relative": "contilab.metrics.landscape:DRIFT_RELATIVE",
    "loss_barrier": "contilab.metrics.landscape:LOSS_BARRIER",
    "grad_cosine": "contilab.metrics.landscape:GRAD_COSINE",
    "interference": "contilab.metrics.landscape:INTERFERENCE",
    "few_shot_recovery": "contilab.metrics.landscape:FEW_SHOT_RECOVERY",
    "ppl_retention": "contilab.metrics.landscape:PPL_RETENTION",
    "samples_new": "contilab.metrics.cost:SAMPLES_NEW",
    "samples_replayed": "contilab.metrics.cost:SAMPLES_REPLAYED",
    "train_steps": "contilab.metrics.cost:TRAIN_STEPS",
    "flops": "contilab.metrics.cost:FLOPS",
    "flops_evaluation": "contilab.metrics.cost:FLOPS_EVALUATION",
    "seconds_group": "contilab.metrics.cost:SECONDS_GROUP",
    "seconds_per_run": "contilab.metrics.cost:SECONDS_PER_RUN",
    "seconds_recording": "contilab.metrics.cost:SECONDS_RECORDING",
    "members": "contilab.metrics.cost:MEMBERS",
    "steps_per_second_mean": "contilab.metrics.cost:STEPS_PER_SECOND_MEAN",
    "params_trainable": "contilab.metrics.cost:PARAMS_TRAINABLE",
    "params_total": "contilab.metrics.cost:PARAMS_TOTAL",
    "peak_rss_bytes": "contilab.metrics.cost:PEAK_RSS_BYTES",
    "peak_device_bytes": "contilab.metrics.cost:PEAK_DEVICE_BYTES",
    "buffer_bytes": "contilab.metrics.cost:BUFFER_BYTES",
    "buffer_sample_bytes": "contilab.metrics.cost:BUFFER_SAMPLE_BYTES",
    "state_bytes": "contilab.metrics.cost:STATE_BYTES",
}


@cache
def metric(name: str) -> Metric:
    """Return the metric *name*; KeyError if the menu has no such name, InputError if its line leads to no metric of it."""
    reference = METRICS[name]
    try:
        loaded = load(reference)
    except (ImportError, AttributeError) as error:
        raise InputError(f"metric {name}", f"{reference} cannot be loaded: {error}", hint=_WAY_OUT) from error
    if not isinstance(loaded, Metric):
        raise InputError(f"metric {name}", f"{reference} is no Metric", hint=_WAY_OUT)
    if wrong := misdescribed(loaded) or (f"it calls itself {loaded.name}" if loaded.name != name else ""):
        raise InputError(f"metric {name}", f"{reference}: {wrong}", hint=_WAY_OUT)
    return loaded


_WAY_OUT = "mend its file, or its line in contilab/metrics/table.py"
