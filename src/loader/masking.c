#include "loader/masking.h"
#include "base/random.h"
#include "base/memory.h"
#include "data/batch.h"

#include <string.h>

static const double masked_share = 0.8, random_share = 0.1; /* shares of the selected tokens */
static const double dropout_share = 0.15 * 0.8;             /* share of mask tokens at which the scale is 1 */

static const char bases[] = {'A', 'C', 'G', 'T'};

int32_t *label_table(const struct tokenizer *tokenizer, bool only_bases, bool uppercase)
{
    if (!tokenizer->bases)
        return NULL;
    int32_t *label_of = memory_allocate(tokenizer->vocabulary * (int64_t)sizeof *label_of);
    for (int32_t id = 0; id < tokenizer->vocabulary; id++) {
        label_of[id] = uppercase && id >= 'a' && id <= 'z' ? id - 'a' + 'A' : id;
        if (only_bases && tokenizer_base(label_of[id]) < 0)
            label_of[id] = BATCH_IGNORED;
    }
    return label_of;
}

/* Returns a random token, as `draw`, uniform in 0 .. 1, chooses. */
static int32_t random_token(const struct tokenizer *tokenizer, double draw)
{
    return tokenizer->bases ? bases[(int)(draw * (double)sizeof bases)]
                            : (int32_t)(draw * (double)tokenizer->vocabulary);
}

/* Returns the probability that random_token returns `id`. */
static double random_likelihood(const struct tokenizer *tokenizer, int32_t id)
{
    if (!tokenizer->bases)
        return 1 / (double)tokenizer->vocabulary;
    return memchr(bases, id, sizeof bases) != NULL ? 1 / (double)sizeof bases : 0;
}

int64_t masking_apply(const struct token_masking *masking, uint64_t epoch, int64_t window, int64_t offset,
                      int64_t count, int32_t *tokens, int32_t *labels)
{
    const struct tokenizer *tokenizer = masking->tokenizer;
    const struct random_key windows = {masking->seed, RANDOM_MASK, epoch};
    const struct random_key places = {masking->seed, RANDOM_MASK, random_bits(&windows, (uint64_t)window)};
    const struct random_series series = random_series_of(&places);
    int64_t selected = 0;
    double draws[RANDOM_LANES];
    for (int64_t i = 0; i < count; i++) {
        if (i % RANDOM_LANES == 0)
            random_series_uniforms(&series, (uint64_t)(offset + i), draws);
        labels[i] = BATCH_IGNORED;
        double draw = draws[i % RANDOM_LANES];
        const int32_t label = masking->label_of != NULL ? masking->label_of[tokens[i]] : tokens[i];
        if (draw >= masking->probability || tokenizer_is_special(tokenizer, tokens[i]) || label == BATCH_IGNORED)
            continue;
        labels[i] = label;
        selected++;
        draw /= masking->probability; /* the draw of a selected token is uniform again, so one draw is enough */
        if (draw < masked_share)
            tokens[i] = tokenizer->mask;
        else if (draw < masked_share + random_share)
            tokens[i] = random_token(tokenizer, (draw - masked_share) / random_share);
    }
    return selected;
}

double masking_likelihood(const struct tokenizer *tokenizer, int32_t original, int32_t seen)
{
    return (seen == tokenizer->mask ? masked_share : 0) + random_share * random_likelihood(tokenizer, seen) +
           (seen == original ? 1 - masked_share - random_share : 0);
}

void masking_scale(const struct tokenizer *tokenizer, const int32_t *tokens, int64_t count, float *scale)
{
    int64_t masked = 0;
    for (int64_t i = 0; i < count; i++)
        masked += tokens[i] == tokenizer->mask;
    double factor = (1 - dropout_share) * (double)count / (double)(count - masked);
    for (int64_t i = 0; i < count; i++)
        scale[i] = tokens[i] == tokenizer->mask ? 0.0f : (float)factor;
}
