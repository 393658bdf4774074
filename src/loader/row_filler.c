#include "loader/row_filler.h"
#include "base/memory.h"
#include "base/range.h"
#include "base/random.h"
#include "loader/labelling.h"
#include "loader/masking.h"
#include "tokenizer/strand.h"

void row_filler_create(struct row_filler *filler, const struct row_filler_settings *settings)
{
    *filler = (struct row_filler){.settings = *settings};
    filler->window_tokens = memory_allocate((settings->row_tokens + 1) * (int64_t)sizeof *filler->window_tokens);
    /* in the order of GenomicDataCollator (recipes 4.4): first upper case, then all but bases are ignored */
    filler->label_of = label_table(settings->tokenizer, settings->mask_degenerate, settings->uppercase_labels);
}

void row_filler_destroy(struct row_filler *filler)
{
    memory_free(filler->window_tokens);
    memory_free(filler->label_of);
}

/* Returns whether a window is read from the other strand. Keyed by the window, so that it depends neither on packing
 * nor on ranks and restarts. */
static bool is_reversed(const struct row_filler_settings *settings, uint64_t epoch, int64_t window)
{
    const struct random_key key = {settings->seed, RANDOM_STRAND, epoch};
    return settings->reverse_complement > 0 && random_uniform(&key, (uint64_t)window) < settings->reverse_complement;
}

/* Reads tokens offset .. offset + count - 1 of a window, special tokens included. reversed: the window, with the token
 * after it if there is one, is first replaced by its reverse complement; the special tokens keep their places. */
static void read_window(const struct window_source *source, const struct token_window *window, bool reversed,
                        int64_t offset, int64_t count, int32_t *out)
{
    if (window->has_bos && offset == 0) {
        *out++ = source->tokenizer->bos;
        count--;
        offset++;
    }
    int64_t from = offset - window->has_bos; /* index without special tokens */
    int64_t there = window->length + window->followed - from, plain = MIN(count, there);
    source->class->read(source->self, window, reversed ? there - plain : from, plain, out);
    if (reversed)
        strand_reverse(out, plain);
    if (plain < count)
        out[plain] = source->tokenizer->eos;
}

static int32_t as_label(const struct row_filler *filler, int32_t token)
{
    return filler->label_of != NULL ? filler->label_of[token] : token;
}

/* Writes the labels of a segment: each token's label is the next token. tokens[length + 1]: the segment's tokens and
 * the token after them. The last token has a label only if `followed`: the window was split after it, or its source has
 * a next token. */
static void label_next(const struct row_filler *filler, const struct packer_segment *segment, bool followed,
                       const int32_t *tokens, struct batch *batch, int64_t at)
{
    for (int64_t i = 0; i < segment->length; i++) {
        bool last = i == segment->length - 1 && !followed;
        int32_t label = last ? BATCH_IGNORED : as_label(filler, tokens[i + 1]);
        batch->labels[at + i] = label;
        batch->valid += label != BATCH_IGNORED;
    }
}

/* Writes the dropout keys of a segment. They depend on the window and the tokens' places in it alone, as masks do
 * (loader/masking.h). */
static void write_dropout_keys(const struct row_filler_settings *settings, uint64_t epoch,
                               const struct packer_segment *segment, int32_t *keys)
{
    const struct random_key windows = {settings->seed, RANDOM_DROPOUT, epoch};
    const struct random_key places = {settings->seed, RANDOM_DROPOUT,
                                      random_bits(&windows, (uint64_t)segment->window.number)};
    for (int64_t i = 0; i < segment->length; i++)
        keys[i] = (int32_t)(uint32_t)random_bits(&places, (uint64_t)(segment->offset + i));
}

void row_filler_fill(struct row_filler *filler, const struct window_source *const *sources, const int64_t *keys,
                     const struct packer_segment *segments, int64_t count, struct batch *batch, int64_t row)
{
    const struct row_filler_settings *settings = &filler->settings;
    const struct token_masking masking = {settings->tokenizer, settings->seed, settings->mask_probability,
                                          filler->label_of};
    int64_t at = row * batch->row_tokens;
    for (int64_t s = 0; s < count; s++) {
        const struct packer_segment *segment = &segments[s];
        bool followed = segment->offset + segment->length < window_length(&segment->window) || segment->window.followed;
        const uint64_t epoch = blend_epoch(keys[segment->store], segment->epoch);
        const bool reversed = is_reversed(settings, epoch, segment->window.number);
        int32_t *tokens = filler->window_tokens;
        read_window(sources[segment->store], &segment->window, reversed, segment->offset, segment->length + followed,
                    tokens);
        if (settings->task.head != DECK_HEAD_LM)
            label_segment(&settings->task, sources[segment->store], segment, reversed, batch, at,
                          row * batch->max_segments + s);
        else if (masking.probability > 0)
            batch->valid += masking_apply(&masking, epoch, segment->window.number, segment->offset, segment->length,
                                          tokens, batch->labels + at);
        else
            label_next(filler, segment, followed, tokens, batch, at);
        if (settings->token_dropout)
            masking_scale(settings->tokenizer, tokens, segment->length, batch->scale + at);
        if (settings->dropout_keys)
            write_dropout_keys(settings, epoch, segment, batch->dropout_keys + at);
        for (int64_t i = 0; i < segment->length; i++) {
            batch->tokens[at + i] = tokens[i];
            batch->positions[at + i] = (int32_t)i;
        }
        batch->segment_start[row * batch->max_segments + s] = (int32_t)at;
        batch->segment_length[row * batch->max_segments + s] = (int32_t)segment->length;
        batch->real += segment->length;
        at += segment->length;
    }
}

void row_filler_clear(const struct row_filler *filler, struct batch *batch)
{
    batch_clear(batch, tokenizer_padding(filler->settings.tokenizer));
    for (int64_t i = 0; filler->settings.token_dropout && i < batch->rows * batch->row_tokens; i++)
        batch->scale[i] = 0.0f;
}
