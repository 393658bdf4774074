#include "loader/masking.h"
#include "base/random.h"
#include "data/batch.h"

static const double masked_share = 0.8, random_share = 0.1; /* shares of the selected tokens */
static const double dropout_share = 0.15 * 0.8;             /* share of mask tokens at which the scale is 1 */

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
        if (draw >= masking->probability || tokenizer_is_special(tokenizer, tokens[i]))
            continue;
        labels[i] = tokens[i];
        selected++;
        draw /= masking->probability; /* the draw of a selected token is uniform again, so one draw is enough */
        if (draw < masked_share)
            tokens[i] = tokenizer->mask;
        else if (draw < masked_share + random_share)
            tokens[i] = (int32_t)((draw - masked_share) / random_share * (double)tokenizer->vocabulary);
    }
    return selected;
}

double masking_likelihood(const struct tokenizer *tokenizer, int32_t original, int32_t seen)
{
    return (seen == tokenizer->mask ? masked_share : 0) + random_share / (double)tokenizer->vocabulary +
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
