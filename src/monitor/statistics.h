/* What quantization loses: measured at the steps that section `statistics` of the deck names, summed over ranks, and
 * told as one row for each operand of each quantized linear layer. */
#ifndef MONITOR_STATISTICS_H
#define MONITOR_STATISTICS_H

#include "comm/comm.h"
#include "setup/setup.h"
#include "engine/engine.h"
#include "monitor/journal.h"
#include "monitor/tensorboard.h"

enum statistics_value {
    STATISTICS_UNDERFLOW,   /* share of the elements that are not 0 and become 0 */
    STATISTICS_CLIPPED,     /* share of those beyond the format's range */
    STATISTICS_ERROR,       /* sqrt(sum of squares of what rounding changes / sum of squares) */
    STATISTICS_AMAX,        /* the largest magnitude; of gradients those of the mean loss */
    STATISTICS_SCALE,       /* the largest scale, in the unit of amax */
    STATISTICS_LEAST_SCALE, /* the smallest that is not 0; NaN: none */
    STATISTICS_SCALES,      /* their number */
    STATISTICS_POWERS,      /* those that are powers of two */
    STATISTICS_VALUES
};

struct statistics_row {
    int layer;          /* from 0; the head is the one behind the last */
    const char *linear; /* "qkv", ...; of the head "transform", "decoder" */
    enum operand_kind operand;
    double values[STATISTICS_VALUES];
};

/* Is the step measured? */
bool statistics_due(const struct statistics_settings *settings, int64_t step);

/* The rows of the step that engine_take returned last, the same on all ranks of the comm, in the order of layer, linear
 * and operand; linears that are not quantized have none. labels: of the step, over all ranks; gradients are those of
 * the mean loss. rows: freed with free(). Returns how many. Collective. */
int64_t statistics_take(const struct engine *engine, struct comm *comm, double labels, struct statistics_row **rows);

/* The member "operands" of a line of the log, and a record of scalars "quantization/layer 1/qkv/gradient/underflow". */
void statistics_log(struct run_journal *journal, const struct statistics_row *rows, int64_t count);
void statistics_draw(struct tensorboard *board, int64_t step, const struct statistics_row *rows, int64_t count);

/* "input", "weight", "gradient"; "underflow", ... */
const char *statistics_operand_name(enum operand_kind operand);
const char *statistics_value_name(enum statistics_value value);

#endif
