/* Quantization errors: measured at the steps that the deck's section `statistics` names, summed over ranks, and logged
 * as one row for each operand of each quantized linear layer. */
#ifndef MONITOR_STATISTICS_H
#define MONITOR_STATISTICS_H

#include "comm/comm.h"
#include "setup/setup.h"
#include "engine/engine.h"
#include "monitor/event_log.h"
#include "monitor/tensorboard.h"

enum statistics_value {
    STATISTICS_UNDERFLOW,   /* fraction of the elements that are not 0 and become 0 */
    STATISTICS_CLIPPED,     /* fraction of the elements not 0 that are beyond the format's range */
    STATISTICS_ERROR,       /* sqrt(sum of squared rounding errors / sum of squares) */
    STATISTICS_AMAX,        /* largest magnitude; gradients are those of the mean loss */
    STATISTICS_SCALE,       /* largest scale, in the unit of amax */
    STATISTICS_LEAST_SCALE, /* smallest scale that is not 0; NaN: none */
    STATISTICS_SCALES,      /* number of scales */
    STATISTICS_POWERS,      /* number of scales that are powers of two */
    STATISTICS_VALUES
};

struct statistics_row {
    int layer;          /* from 0; the head is the layer after the last one */
    const char *linear; /* "qkv", ...; for the head "transform", "decoder" */
    enum operand_kind operand;
    double values[STATISTICS_VALUES];
};

/* Returns whether the step is measured. */
bool statistics_due(const struct statistics_settings *settings, int64_t step);

/* Writes the rows of the step that engine_take returned last, in the order of layer, linear and operand, and returns
 * their number. Linear layers that are not quantized have no rows. labels: of the step, over all ranks. rows: freed
 * with free(). Collective; the same rows on all ranks. */
int64_t statistics_take(const struct engine *engine, struct comm *comm, double labels, struct statistics_row **rows);

/* statistics_log writes the member "operands" of a log line; statistics_draw writes a record of scalars such as
 * "quantization/layer 1/qkv/gradient/underflow". */
void statistics_log(struct event_log *event_log, const struct statistics_row *rows, int64_t count);
void statistics_draw(struct tensorboard *board, int64_t step, const struct statistics_row *rows, int64_t count);

/* Return names: "input", "weight", "gradient"; "underflow", ... */
const char *statistics_operand_name(enum operand_kind operand);
const char *statistics_value_name(enum statistics_value value);

#endif
