/* What ranks wait for each other because their micro-batches cost unlike, with data.balance = false and true: the cost
 * of the dearest rank over the ranks' mean, for ranks that wait in each micro-batch (parallel.shard = "full") and for
 * those that wait once a step, over STEPS steps of a deck. A rank's cost is that of its matrix products, which is the
 * same for each row, and of attention, which grows with the squares of the segments' lengths.
 *   bench/load_balance RANKS STEPS DECK [KEY=VALUE]... */
#include "base/error.h"
#include "base/memory.h"
#include "loader/loader.h"
#include "architecture/flops.h"
#include "deck/fields.h"
#include "setup/settings.h"
#include "setup/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What a FLOP of matrix products and one of attention takes. SLOWER: attention of packed rows on an H200, where it is
 * 8.4 % of og2_packed's FLOPs, and takes 51 ms beside 247 ms of products (bench/results/gpu_step_time.txt). */
#define SLOWER 2.3
static const struct kind {
    const char *name;
    double products, attention;
} kinds[] = {{"attention alone", 0, 1}, {"FLOPs", 1, 1}, {"time", 1, SLOWER}};
enum { KINDS = sizeof kinds / sizeof *kinds };

/* Sums over steps: of the ranks' mean, and of the dearest rank in each micro-batch and in each step. */
struct waits {
    double mean, micro_batch, step;
};

static double cost_of(const struct batch *batch, const struct model_settings *model, const struct kind *kind)
{
    const double products = 6 * model_matrix_elements(model);
    double attention = 0;
    for (int64_t s = 0; s < batch->rows * batch->max_segments; s++) {
        const int64_t length = batch->segment_length[s];
        if (length > 0)
            attention += (double)length * (flops_per_token(model, length, FLOPS_CAUSAL) - products);
    }
    return kind->products * products * (double)(batch->rows * batch->row_tokens) + kind->attention * attention;
}

static void add_step(struct loader *const *loaders, int ranks, const struct model_settings *model, struct waits *waits)
{
    const struct batch **batches = memory_allocate(ranks * (int64_t)sizeof *batches);
    double *sums = memory_allocate(KINDS * ranks * (int64_t)sizeof *sums);
    for (int r = 0; r < ranks; r++)
        batches[r] = loader_next(loaders[r]);
    for (int k = 0; k < KINDS; k++) {
        double step = 0, *sum = sums + k * ranks;
        for (int64_t m = 0; m < loader_micro_batches(loaders[0]); m++) {
            double most = 0;
            for (int r = 0; r < ranks; r++) {
                const double cost = cost_of(&batches[r][m], model, &kinds[k]);
                sum[r] += cost;
                waits[k].mean += cost / ranks;
                most = cost > most ? cost : most;
            }
            waits[k].micro_batch += most;
        }
        for (int r = 0; r < ranks; r++)
            step = sum[r] > step ? sum[r] : step;
        waits[k].step += step;
    }
    memory_free(batches);
    memory_free(sums);
}

static int measure(struct comm *world, const struct deck *deck, bool balance, int ranks, int steps, struct waits *waits)
{
    struct loader_settings settings = settings_of_loader(deck);
    struct loader **loaders = memory_allocate(ranks * (int64_t)sizeof(struct loader *));
    struct model_settings model;
    int code = ERROR_NONE;
    settings.balance = balance;
    for (int r = 0; r < ranks && code == ERROR_NONE; r++)
        code = loader_create(&loaders[r], &settings, world, r, ranks);
    if (code == ERROR_NONE)
        code = comm_agree(world, model_settings_from_deck(&model, deck, loader_vocabulary(loaders[0])));
    for (int step = 0; step < steps && code == ERROR_NONE; step++)
        add_step(loaders, ranks, &model, waits);
    for (int r = 0; r < ranks; r++)
        loader_destroy(loaders[r]);
    memory_free(loaders);
    return code;
}

int main(int count, char **arguments)
{
    if (count < 4 || atoi(arguments[1]) < 1 || atoi(arguments[2]) < 1) {
        fprintf(stderr, "usage: bench/load_balance RANKS STEPS DECK [KEY=VALUE]...\n");
        return 2;
    }
    struct deck deck;
    struct comm *world = comm_self();
    struct waits waits[2][KINDS] = {{{0, 0, 0}}};
    const int ranks = atoi(arguments[1]), steps = atoi(arguments[2]);
    int code = comm_agree(world, deck_read(&deck, arguments[3], arguments + 4, count - 4, NULL));
    if (code == ERROR_NONE)
        code = comm_agree(world, settings_check(&deck, ranks));
    for (int balance = 0; balance < 2 && code == ERROR_NONE; balance++)
        code = measure(world, &deck, balance, ranks, steps, waits[balance]);
    if (code == ERROR_NONE)
        printf("%d ranks, %lld rows a step, %lld a micro-batch\n%-18s%18s%18s\n%-18s%9s%9s%9s%9s\n", ranks,
               (long long)deck.train.global_batch, (long long)deck.train.micro_batch, "dearest rank over mean",
               "micro-batch", "step", "", "before", "dealt", "before", "dealt");
    for (int k = 0; k < KINDS && code == ERROR_NONE; k++)
        printf("%-18s%9.3f%9.3f%9.3f%9.3f\n", kinds[k].name, waits[0][k].micro_batch / waits[0][k].mean,
               waits[1][k].micro_batch / waits[1][k].mean, waits[0][k].step / waits[0][k].mean,
               waits[1][k].step / waits[1][k].mean);
    comm_destroy(world);
    return code;
}
