#include "loader/store_epochs.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/range.h"

#include <stdlib.h>

/* A warning is due above this number of epochs. A few repetitions cost little; ten or more are rarely intended
 * (Muennighoff et al. 2023, arXiv:2305.16264). */
static const double many_epochs = 10;

void store_epochs(struct store_share *shares, int stores, double rows, int64_t row_tokens)
{
    double largest = 0, sum = 0, window_tokens = 0; /* scaled by the largest weight, so that the sum is finite */
    for (int d = 0; d < stores; d++)
        largest = MAX(shares[d].weight, largest);
    for (int d = 0; d < stores; d++) {
        const double weight = shares[d].weight / largest;
        sum += weight;
        window_tokens += weight * (double)shares[d].tokens / (double)shares[d].windows;
    }
    const double windows = row_tokens > 0 ? rows * (double)row_tokens / (window_tokens / sum) : rows;
    for (int d = 0; d < stores; d++)
        shares[d].epochs = shares[d].weight / largest / sum * windows / (double)shares[d].windows;
}

void store_epochs_warn(const struct store_share *shares, int stores)
{
    int most = 0, count = 0;
    for (int d = 0; d < stores; d++) {
        count += shares[d].epochs > many_epochs;
        most = shares[d].epochs > shares[most].epochs ? d : most;
    }
    if (count == 0)
        return;
    char *others =
        count > 1 ? memory_format(" (and %d more stores over %g)", count - 1, many_epochs) : memory_string("");
    log_warn("data.weights: the run repeats %s %.0f times%s; lower its weight or train.steps to repeat it less",
             shares[most].path, shares[most].epochs, others);
    free(others);
}
