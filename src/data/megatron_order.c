#include "data/megatron_order.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/range.h"
#include "data/numpy_random.h"

#include <stdbool.h>
#include <xxhash.h>

int64_t megatron_samples(int64_t tokens, int64_t length)
{
    return (tokens - 1) / length;
}

int megatron_too_short(const struct megatron_store *store, const struct megatron_part *part, int64_t length)
{
    return error_user("%s: the part in use has %lld tokens, too few for a sample of %lld tokens and the token after "
                      "it; lower data.row_tokens, or use a larger part (data.split_ratios)",
                      store->prefix, (long long)part->tokens, (long long)length);
}

static int64_t epochs_for(const struct megatron_part *part, int64_t samples, int64_t length)
{
    const int64_t epochs = (samples * length + 1 + part->tokens - 1) / part->tokens;
    return MAX(epochs, 1);
}

/* Returns whether the last epoch is shuffled separately. */
static bool is_last_apart(const struct megatron_order *order, const struct megatron_part *part, int64_t samples,
                          int64_t length)
{
    if (order->epochs == 1)
        return false;
    const int64_t of_last = samples - megatron_samples((order->epochs - 1) * part->tokens, length);
    return of_last < (int64_t)(0.8 * (double)megatron_samples(part->tokens, length));
}

/* Shuffles the first `together` epochs as one, then the others. */
static void order_sequences(struct megatron_order *order, const struct megatron_part *part, int64_t together,
                            struct numpy_random *random)
{
    const int64_t all = order->epochs * part->count, first = together * part->count;
    order->sequences = memory_allocate(all * (int64_t)sizeof *order->sequences);
    for (int64_t i = 0; i < all; i++)
        order->sequences[i] = (uint32_t)(part->first + i % part->count);
    numpy_random_shuffle(random, order->sequences, first);
    numpy_random_shuffle(random, order->sequences + first, all - first);
}

/* Returns the start of the next sample: the last token of the sample that begins at `at`. */
static struct megatron_place step(const struct megatron_order *order, const struct megatron_store *store,
                                  struct megatron_place at, int64_t length)
{
    int64_t rest = length + 1;
    for (;;) {
        const int64_t there = megatron_store_length(store, order->sequences[at.sequence]) - at.token;
        if (there >= rest)
            return (struct megatron_place){at.sequence, (int32_t)(at.token + rest - 1)};
        rest -= there;
        at = (struct megatron_place){at.sequence + 1, 0};
    }
}

static void split_samples(struct megatron_order *order, const struct megatron_store *store, int64_t length)
{
    order->begins = memory_allocate((order->samples + 1) * (int64_t)sizeof *order->begins);
    for (int64_t i = 0; i < order->samples; i++)
        order->begins[i + 1] = step(order, store, order->begins[i], length);
}

static void order_samples(struct megatron_order *order, int64_t together, struct numpy_random *random)
{
    order->shuffle = memory_allocate(order->samples * (int64_t)sizeof *order->shuffle);
    for (int64_t i = 0; i < order->samples; i++)
        order->shuffle[i] = (uint32_t)i;
    numpy_random_shuffle(random, order->shuffle, together);
    numpy_random_shuffle(random, order->shuffle + together, order->samples - together);
}

static int check_size(const struct megatron_order *order, const struct megatron_store *store,
                      const struct megatron_part *part, int64_t length)
{
    if (order->samples == 0)
        return megatron_too_short(store, part, length);
    if (order->epochs > (INT32_MAX - 1) / part->count || order->samples > UINT32_MAX - 2)
        return error_user("%s: %lld epochs of %lld sequences and %lld samples are more than data.order = \"megatron\" "
                          "can plan (2^31 sequences, 2^32 samples)",
                          store->prefix, (long long)order->epochs, (long long)part->count, (long long)order->samples);
    return ERROR_NONE;
}

int megatron_order_create(struct megatron_order *order, const struct megatron_store *store,
                          const struct megatron_part *part, int64_t samples, int64_t length, uint32_t seed)
{
    *order = (struct megatron_order){0};
    order->epochs = epochs_for(part, samples, length);
    order->samples = megatron_samples(order->epochs * part->tokens, length);
    int code = check_size(order, store, part, length);
    if (code != ERROR_NONE)
        return code;
    const bool apart = is_last_apart(order, part, samples, length);
    const int64_t together = order->epochs - apart;
    const int64_t facts[] = {order->epochs, apart, length, seed, part->first, part->count};
    order->checksum = XXH3_64bits(facts, sizeof facts);
    struct numpy_random random = numpy_random_create(seed);
    order_sequences(order, part, together, &random);
    split_samples(order, store, length);
    order_samples(order, apart ? megatron_samples(together * part->tokens, length) : order->samples, &random);
    return ERROR_NONE;
}

void megatron_order_destroy(struct megatron_order *order)
{
    memory_free(order->sequences);
    memory_free(order->begins);
    memory_free(order->shuffle);
    *order = (struct megatron_order){0};
}
