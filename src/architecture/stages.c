#include "architecture/stages.h"
#include "base/error.h"
#include "base/memory.h"

#include <math.h>

/* Returns the cost of a slice in addition to its layers. */
static double extra_cost(const struct model_settings *s, int slice)
{
    const double head = (double)(s->vocabulary * s->hidden);
    const double layer = (model_matrix_elements(s) - head) / (double)s->layers;
    const bool first = slice == 0, last = slice + 1 == stage_slices(&s->pipeline);
    if (s->pipeline.balance == DECK_STAGES_ENDS)
        return first + last;
    return last && s->pipeline.balance == DECK_STAGES_COST ? head / layer : 0;
}

int stages_most_slices(const struct model_settings *s)
{
    const int ends = s->pipeline.balance == DECK_STAGES_ENDS ? 2 : s->pipeline.balance == DECK_STAGES_COST;
    return (int)s->layers + ends;
}

/* table[k][l]: the smallest sum of squares of slices 0 .. k with l layers, and the number n of layers of slice k in it.
 * It is the best, over n, of slices 0 .. k - 1 with l - n layers plus slice k. */
struct stages_cell {
    double squares;
    int layers;
};

static struct stages_cell best_cell(const struct stages_cell *before, int l, double extra)
{
    struct stages_cell best = {INFINITY, 0};
    for (int n = l; n >= (extra > 0 ? 0 : 1); n--) {
        const double squares = before[l - n].squares + (n + extra) * (n + extra);
        if (squares < best.squares)
            best = (struct stages_cell){squares, n};
    }
    return best;
}

void stages_balance(const struct model_settings *s, int *layers)
{
    const int slices = stage_slices(&s->pipeline), width = (int)s->layers + 1;
    if (slices > 1 && slices > stages_most_slices(s))
        error_fatal("bug: %lld layers cannot be divided among %d slices", (long long)s->layers, slices);
    if (slices == 1) {
        layers[0] = (int)s->layers;
        return;
    }
    struct stages_cell *table = memory_allocate((int64_t)(slices + 1) * width * (int64_t)sizeof *table);
    for (int l = 1; l < width; l++) /* row 0: without slices there are no layers */
        table[l].squares = INFINITY;
    for (int k = 0; k < slices; k++) {
        struct stages_cell *row = table + (int64_t)(k + 1) * width;
        for (int l = 0; l < width; l++)
            row[l] = best_cell(row - width, l, extra_cost(s, k));
    }
    for (int k = slices - 1, left = (int)s->layers; k >= 0; k--) {
        layers[k] = table[(int64_t)(k + 1) * width + left].layers;
        left -= layers[k];
    }
    memory_free(table);
}
