#include "setup/class_weights.h"
#include "base/error.h"
#include "deck/fields.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

bool class_weights_given(const struct deck *deck)
{
    return deck->train.class_weights[0] != '\0';
}

bool class_weights_balanced(const struct deck *deck)
{
    return strcmp(deck->train.class_weights, "balanced") == 0;
}

static void balance(float *weights, int64_t classes, const int64_t *counts)
{
    double all = 0;
    for (int64_t c = 0; c < classes; c++)
        all += (double)counts[c];
    for (int64_t c = 0; c < classes; c++)
        weights[c] = counts[c] > 0 ? (float)(all / ((double)classes * (double)counts[c])) : 0.0F;
}

/* Returns whether the text has a positive number for each class. */
static bool parse(float *weights, int64_t classes, const char *text)
{
    for (int64_t c = 0; c < classes; c++) {
        char *end;
        weights[c] = strtof(text, &end);
        if (end == text || !isfinite(weights[c]) || !(weights[c] > 0) || *end != (c + 1 < classes ? ',' : '\0'))
            return false;
        text = end + 1;
    }
    return true;
}

int class_weights_read(float *weights, const struct deck *deck, const struct task_settings *task, const int64_t *counts)
{
    const char *text = deck->train.class_weights;
    if (task->head == DECK_HEAD_LM || task->problem == DECK_PROBLEM_REGRESSION)
        return error_user("key train.class_weights: needs a fine-tuning head that learns classes (model.head)");
    if (deck->train.reproducible)
        return error_user("key train.class_weights: not with train.reproducible, whose sums count labels");
    if (class_weights_balanced(deck))
        balance(weights, task->labels, counts);
    else if (!parse(weights, task->labels, text))
        return error_user(
            "key train.class_weights = \"%s\": must be \"balanced\", or a positive number for each of %lld "
            "classes, separated by commas",
            text, (long long)task->labels);
    return ERROR_NONE;
}
