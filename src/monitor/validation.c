#include "monitor/validation.h"

const struct validation_metric_names validation_metrics[VALIDATION_METRICS] = {
    [VALIDATION_ACCURACY] = {"accuracy", "accuracy"},
    [VALIDATION_F1] = {"f1", "F1"},
    [VALIDATION_MCC] = {"mcc", "MCC"},
    [VALIDATION_AUC] = {"auc", "AUC"},
    [VALIDATION_SPEARMAN] = {"spearman", "Spearman"},
    [VALIDATION_R2] = {"r2", "R2"},
};
