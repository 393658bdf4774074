/* How well predictions agree with measured values: classes by their counts, numbers by lists. Definitions as
 * scikit-learn's. */
#ifndef BASE_AGREEMENT_H
#define BASE_AGREEMENT_H

#include <stdint.h>

/* Counts of predictions for each class. */
struct class_counts {
    int64_t classes;
    int64_t *labelled;  /* [classes] of that class */
    int64_t *predicted; /* [classes] predicted to be of that class */
    int64_t *right;     /* [classes] both */
};

/* Return the share of right predictions; the mean of the classes' F1 over classes that are labelled or predicted
 * (macro average); Matthews' correlation of any number of classes (Gorodkin 2004), 0 if all labels or all predictions
 * are one class. NaN without predictions. */
double agreement_accuracy(const struct class_counts *counts);
double agreement_f1(const struct class_counts *counts);
double agreement_mcc(const struct class_counts *counts);

/* Returns R^2, the share of the measured values' variance that predictions explain; NaN if all values are equal. */
double agreement_r2(const double *predicted, const double *measured, int64_t count);

#endif
