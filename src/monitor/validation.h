/* The metrics of a validation besides its loss: those of a fine-tuning head. */
#ifndef MONITOR_VALIDATION_H
#define MONITOR_VALIDATION_H

enum validation_metric {
    VALIDATION_ACCURACY,
    VALIDATION_F1,
    VALIDATION_MCC,
    VALIDATION_AUC,
    VALIDATION_SPEARMAN,
    VALIDATION_R2,
    VALIDATION_METRICS
};

/* Their names in log.jsonl, TensorBoard ("validation/NAME") and validation.metric, and in the table. */
struct validation_metric_names {
    const char *key, *title;
};
extern const struct validation_metric_names validation_metrics[VALIDATION_METRICS];

#endif
