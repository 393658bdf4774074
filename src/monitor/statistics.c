#include "monitor/statistics.h"
#include "base/memory.h"
#include "model/linear.h"

#include <math.h>
#include <stdlib.h>

enum { LAYER_OPERANDS = LINEAR_COUNT * OPERAND_COUNT, DIGITS = 6 };

const char *statistics_operand_name(enum operand_kind operand)
{
    static const char *const names[OPERAND_COUNT] = {"input", "weight", "gradient"};
    return names[operand];
}

const char *statistics_value_name(enum statistics_value value)
{
    static const char *const names[STATISTICS_VALUES] = {"underflow", "clipped",     "error",  "amax",
                                                         "scale",     "least_scale", "scales", "powers_of_two"};
    return names[value];
}

bool statistics_due(const struct statistics_settings *settings, int64_t step)
{
    const struct step_range *steps = &settings->steps;
    const bool within = step >= steps->start && (steps->stop == 0 || step <= steps->stop);
    return settings->every > 0 && within && (step == 1 || step % settings->every == 0);
}

static double share(double part, double whole)
{
    return whole > 0 ? part / whole : 0;
}

/* Returns the row of an operand from the sums and maxima over all ranks. The engine computes gradients of the sum of
 * losses; dividing their magnitudes and scales by the step's labels gives those of the mean loss. */
static struct statistics_row row_of(int operand, int64_t layers, const double found[STATISTICS], double labels)
{
    static const char *const of_head[] = {"transform", "decoder"};
    const int of_layer = operand % LAYER_OPERANDS, linear = of_layer / OPERAND_COUNT, layer = operand_layer(operand);
    const enum operand_kind kind = (enum operand_kind)(of_layer % OPERAND_COUNT);
    const double factor = kind == OPERAND_GRADIENT && labels > 0 ? labels : 1;
    return (struct statistics_row){
        .layer = layer,
        .linear = layer < layers ? precision_linear_name(linear) : of_head[linear],
        .operand = kind,
        .values = {[STATISTICS_UNDERFLOW] = share(found[STATISTIC_UNDERFLOWS], found[STATISTIC_COUNT]),
                   [STATISTICS_CLIPPED] = share(found[STATISTIC_CLIPPED], found[STATISTIC_COUNT]),
                   [STATISTICS_ERROR] = sqrt(share(found[STATISTIC_ERROR], found[STATISTIC_SQUARES])),
                   [STATISTICS_AMAX] = found[STATISTIC_AMAX] / factor,
                   [STATISTICS_SCALE] = found[STATISTIC_SCALE] / factor,
                   [STATISTICS_LEAST_SCALE] =
                       found[STATISTIC_INVERSE] > 0 ? 1 / found[STATISTIC_INVERSE] / factor : (double)NAN,
                   [STATISTICS_SCALES] = found[STATISTIC_SCALES],
                   [STATISTICS_POWERS] = found[STATISTIC_POWERS]}};
}

/* Reduces over ranks, on rank 0 in rank order, and sends the result to all. all: scratch of rank 0 for all ranks'
 * numbers, [ranks][count]. */
static void combine(struct comm *comm, double *found, double *all)
{
    enum { COUNT = LAYER_OPERANDS * STATISTICS };
    const int ranks = comm->rank == 0 ? comm->size : 0;
    comm_gather(comm, found, all, COUNT * (int64_t)sizeof *found);
    for (int rank = 1; rank < ranks; rank++)
        for (int i = 0; i < COUNT; i++) {
            const double other = all[(int64_t)rank * COUNT + i];
            found[i] = i % STATISTICS < STATISTIC_AMAX ? found[i] + other : fmax(found[i], other);
        }
    comm_broadcast(comm, found, COUNT * (int64_t)sizeof *found, 0);
}

int64_t statistics_take(const struct engine *engine, struct comm *comm, double labels, struct statistics_row **rows)
{
    const struct layer_list *layers = &engine->model->settings.precision.statistics;
    const int operands = (int)engine->quantization_errors.rows;
    double(*found)[STATISTICS] = memory_allocate(operands * (int64_t)sizeof *found);
    double *all = memory_allocate((comm->rank == 0 ? comm->size : 1) * LAYER_OPERANDS * (int64_t)sizeof *found);
    int64_t count = 0;
    *rows = memory_grow(NULL, operands * (int64_t)sizeof **rows);
    engine_quantization_errors(engine, found[0]);
    for (int first = 0; first < operands; first += LAYER_OPERANDS) {
        if (!layer_list_has(layers, operand_layer(first)))
            continue;
        combine(comm, found[first], all);
        for (int i = first; i < first + LAYER_OPERANDS; i++)
            if (found[i][STATISTIC_COUNT] > 0)
                (*rows)[count++] = row_of(i, engine->model->settings.layers, found[i], labels);
    }
    memory_free(all);
    memory_free(found);
    return count;
}

void statistics_log(struct event_log *event_log, const struct statistics_row *rows, int64_t count)
{
    event_log_list(event_log, "operands");
    for (int64_t i = 0; i < count; i++) {
        event_log_object(event_log);
        event_log_integer(event_log, "layer", rows[i].layer + 1);
        event_log_text(event_log, "linear", rows[i].linear);
        event_log_text(event_log, "operand", statistics_operand_name(rows[i].operand));
        for (enum statistics_value v = 0; v < STATISTICS_VALUES; v++)
            event_log_real(event_log, statistics_value_name(v), rows[i].values[v], v < STATISTICS_SCALES ? DIGITS : 17);
        event_log_object_end(event_log);
    }
    event_log_list_end(event_log);
}

/* Draws all but the last values: the counts of scales do not change. */
void statistics_draw(struct tensorboard *board, int64_t step, const struct statistics_row *rows, int64_t count)
{
    enum { DRAWN = STATISTICS_LEAST_SCALE };
    if (board->path == NULL)
        return;
    struct tensorboard_scalar *scalars = memory_allocate(count * DRAWN * (int64_t)sizeof *scalars);
    for (int64_t i = 0; i < count * DRAWN; i++) {
        const struct statistics_row *row = &rows[i / DRAWN];
        const enum statistics_value value = (enum statistics_value)(i % DRAWN);
        scalars[i] = (struct tensorboard_scalar){memory_format("quantization/layer %d/%s/%s/%s", row->layer + 1,
                                                               row->linear, statistics_operand_name(row->operand),
                                                               statistics_value_name(value)),
                                                 row->values[value]};
    }
    tensorboard_write(board, step, scalars, (int)(count * DRAWN));
    for (int64_t i = 0; i < count * DRAWN; i++)
        free((char *)scalars[i].tag);
    memory_free(scalars);
}
