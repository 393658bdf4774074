/* A loader's output as a stream of tokens and labels, and the same stream computed from its definition. */
#ifndef TESTS_LOADER_STREAM_H
#define TESTS_LOADER_STREAM_H

#include "base/random.h"
#include "data/shuffle.h"
#include "loaders.h"

/* A stream of (token, label) pairs. */
struct read_stream {
    int32_t *pairs; /* [2 * count] */
    int64_t count, capacity;
};

static inline void push(struct read_stream *stream, int32_t token, int32_t label)
{
    if (stream->count == stream->capacity) {
        stream->capacity = 2 * stream->capacity + 4096;
        stream->pairs = memory_grow(stream->pairs, stream->capacity * 8);
    }
    stream->pairs[2 * stream->count] = token;
    stream->pairs[2 * stream->count++ + 1] = label;
}

/* Converts a token to a label: upper-cases, then masks, in the order of GenomicDataCollator. */
static inline int32_t as_label(const struct loader_settings *settings, int32_t token)
{
    if (settings->uppercase_labels && token >= 97 && token <= 122)
        token -= 32;
    if (settings->mask_degenerate && (token == 0 || strchr("ACGTacgt", token) == NULL))
        token = -100;
    return token;
}

/* The reverse complement of a window's bases, of which special tokens at its ends are none. */
static inline void reverse(int32_t *tokens, int64_t length, bool bos, bool eos)
{
    static const char bases[] = "ACGTacgtNR", complements[] = "TGCAtgcaNY";
    const int64_t count = length - bos - eos;
    int32_t *copy = memory_grow(NULL, (count + 1) * 4);
    memcpy(copy, tokens + bos, (size_t)count * 4);
    for (int64_t i = 0; i < count; i++)
        tokens[bos + i] = complements[strchr(bases, copy[count - 1 - i]) - bases];
    free(copy);
}

/* Appends one epoch by the definition of windows, directly from the texts. `epoch` also distinguishes stores of a
 * blend. */
static inline void push_epoch(struct read_stream *stream, const struct loader_settings *settings,
                              char *const *sequences, int64_t count, int64_t epoch)
{
    struct list {
        int64_t begin, length;
    } *windows = NULL;
    int64_t found = 0, allocated = 0, bytes = 0;
    int32_t *all = NULL; /* tokens of all windows, concatenated */
    for (int64_t s = 0; s < count; s++) {
        int64_t length = (int64_t)strlen(sequences[s]);
        bool ends = settings->special == LOADER_SPECIAL_SEQUENCE;
        const bool bos = !settings->no_bos, eos = !settings->no_eos;
        int64_t total = ends ? length + bos + eos : length;
        int64_t capacity = ends ? settings->window : settings->window - bos - eos;
        for (int64_t from = 0; length > 0; from += capacity - settings->overlap) {
            int64_t to = from + capacity < total ? from + capacity : total;
            all = memory_grow(all, (bytes + settings->window) * 4);
            if (found == allocated) {
                allocated = 2 * allocated + 64;
                windows = memory_grow(windows, allocated * (int64_t)sizeof *windows);
            }
            windows[found].begin = bytes;
            if (!ends && bos)
                all[bytes++] = 2;
            for (int64_t t = from; t < to; t++)
                all[bytes++] = !ends                   ? sequences[s][t]
                               : bos && t == 0         ? 2
                               : eos && t == total - 1 ? 0
                                                       : sequences[s][t - bos];
            if (!ends && eos)
                all[bytes++] = 0;
            windows[found].length = bytes - windows[found].begin;
            found++;
            if (to == total)
                break;
        }
    }
    struct index_shuffle order = shuffle_create(found, settings->seed, epoch);
    for (int64_t w = 0; w < found; w++) {
        const int64_t number = settings->shuffle ? shuffle_at(&order, w) : w;
        struct list window = windows[number];
        const struct random_key key = {settings->seed, RANDOM_STRAND, (uint64_t)epoch};
        if (random_uniform(&key, (uint64_t)number) < settings->reverse_complement)
            reverse(all + window.begin, window.length, !settings->no_bos, !settings->no_eos);
        for (int64_t t = 0; t < window.length; t++)
            push(stream, all[window.begin + t],
                 t + 1 < window.length ? as_label(settings, all[window.begin + t + 1]) : -100);
    }
    free(all);
    free(windows);
}

/* Checks a step's tables and padding, and appends its tokens without padding in the order of rows. */
static inline void push_step(struct read_stream *stream, const struct batch *batches, int64_t micro_batches,
                             const struct loader_settings *settings)
{
    int64_t wrong = 0;
    for (int64_t m = 0; m < micro_batches; m++) {
        const struct batch *batch = &batches[m];
        int64_t real = 0, valid = 0;
        for (int64_t row = 0; row < batch->rows; row++) {
            int64_t at = row * batch->row_tokens, stop = at + batch->row_tokens;
            bool ended = false;
            for (int64_t s = row * batch->max_segments; s < (row + 1) * batch->max_segments; s++) {
                ended = ended || batch->segment_length[s] == 0;
                if (ended) {
                    wrong += batch->segment_length[s] != 0;
                    continue;
                }
                wrong += batch->segment_start[s] != at;
                for (int32_t i = 0; i < batch->segment_length[s]; i++, at++) {
                    wrong += batch->positions[at] != i;
                    valid += batch->labels[at] != -100;
                    push(stream, batch->tokens[at], batch->labels[at]);
                }
                real += batch->segment_length[s];
            }
            for (; at < stop; at++)
                wrong += batch->tokens[at] != 1 || batch->labels[at] != -100 || batch->positions[at] != 0;
            wrong += settings->format == LOADER_PADDED && batch->max_segments > 1 &&
                     batch->segment_length[row * batch->max_segments + 1] != 0;
        }
        wrong += real != batch->real || valid != batch->valid;
    }
    CHECK(wrong == 0);
}

enum { TEXTS = 9, SECOND = 5 /* the first text of the second store */ };

/* Makes sequences of many lengths, including 0, with lower case and N. */
static inline void make_texts(char *texts[TEXTS])
{
    static const int lengths[TEXTS] = {700, 0, 1, 61, 62, 63, 400, 2, 1500};
    for (int i = 0; i < TEXTS; i++) {
        struct random_key key = {5, RANDOM_TEST, (uint64_t)i};
        texts[i] = memory_grow(NULL, lengths[i] + 1);
        for (int t = 0; t < lengths[i]; t++)
            texts[i][t] = "ACGTacgtNRACGTAC"[random_bits(&key, (uint64_t)t) >> 60];
        texts[i][lengths[i]] = '\0';
    }
}

/* A test program's scratch folder, its world, the texts, a store of all texts and one of those from SECOND on. */
struct texts {
    char *all[TEXTS], *first, *second, *both; /* both: a list of the two stores */
};

static inline void texts_begin(struct texts *texts)
{
    stores_begin();
    world = comm_self();
    make_texts(texts->all);
    texts->first = memory_string(stores_path("texts.h5"));
    texts->second = memory_string(stores_path("second.h5"));
    texts->both = memory_format("%s, %s", texts->first, texts->second);
    stores_write(texts->first, texts->all, TEXTS);
    stores_write(texts->second, texts->all + SECOND, TEXTS - SECOND);
}

/* Frees everything; returns the exit status for main. */
static inline int texts_end(struct texts *texts)
{
    stores_free(texts->all, TEXTS);
    free(texts->first);
    free(texts->second);
    free(texts->both);
    comm_destroy(world);
    stores_end();
    return check_end();
}

#endif
