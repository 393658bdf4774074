#include "infer/decode.h"
#include "base/clock.h"
#include "base/memory.h"
#include "base/range.h"

#include <stdlib.h>

/* A place of the key-value cache. */
struct cache_place {
    struct decode_sequence *sequence; /* NULL: free */
    int64_t first;                    /* index of the sequence's first token in the cache */
};

/* The sampled token after a piece. */
struct decode_choice {
    int64_t place;
    int32_t token;
    double log_probability;
};

struct decoding {
    const struct decode_settings *settings;
    struct cache_place *places;    /* [sequences] */
    struct engine_piece *pieces;   /* [sequences] of a call */
    struct decode_choice *choices; /* [sequences] for the pieces whose logits are requested */
    int64_t piece_count, choice_count, tokens;
};

int64_t decode_first(int64_t n, int64_t context)
{
    const int64_t half = context / 2;
    return n <= context ? 0 : (n - context + half - 1) / half * half;
}

/* Returns the number of tokens of a place that are not in the cache yet. If the first token that the model may see has
 * moved, the place is emptied first. */
static int64_t lacking(const struct decoding *d, int64_t at)
{
    struct cache_place *place = &d->places[at];
    const int64_t first = decode_first(place->sequence->count, d->settings->context);
    if (first != place->first) {
        engine_truncate(d->settings->engine, at, 0);
        place->first = first;
    }
    return place->sequence->count - first - engine_length(d->settings->engine, at);
}

static void add_piece(struct decoding *d, int64_t at, int64_t lacks)
{
    const struct cache_place *place = &d->places[at];
    const int64_t left = d->settings->call_tokens - d->tokens, count = MIN(lacks, left);
    if (count == 0)
        return;
    d->pieces[d->piece_count++] =
        (struct engine_piece){.sequence = at,
                              .tokens = place->sequence->tokens + place->first + engine_length(d->settings->engine, at),
                              .count = count,
                              .ends = count == lacks};
    d->tokens += count;
    if (count == lacks)
        d->choices[d->choice_count++] = (struct decode_choice){.place = at};
}

/* Lists the pieces of a call. Sequences that lack one token come first, so that they do not wait for long prompts. */
static void list_pieces(struct decoding *d)
{
    d->piece_count = d->choice_count = d->tokens = 0;
    for (int long_ones = 0; long_ones < 2; long_ones++)
        for (int64_t at = 0; at < d->settings->sequences; at++) {
            const int64_t lacks = d->places[at].sequence != NULL ? lacking(d, at) : 0;
            if (lacks > 0 && (lacks > 1) == long_ones)
                add_piece(d, at, lacks);
        }
}

static void read_row(const struct tensor *logits, int64_t row, double *to)
{
    const uint16_t *narrow = tensor_at(logits, row, 0);
    for (int64_t v = 0; v < logits->cols && logits->dtype == DTYPE_BF16; v++) /* directly, for speed */
        to[v] = (double)bf16_to_f32(narrow[v]);
    for (int64_t v = 0; v < logits->cols && logits->dtype != DTYPE_BF16; v++)
        to[v] = tensor_get(logits, row, v);
}

static void choose(const struct decoding *d, const struct tensor *logits)
{
    const struct decode_settings *s = d->settings;
    enum { FEW = 1 << 12 }; /* values below which starting threads costs more than it saves */
#pragma omp parallel for num_threads(s->threads) if (tensor_count(logits) > FEW)
    for (int64_t i = 0; i < d->choice_count; i++) {
        struct decode_choice *choice = &d->choices[i];
        const struct decode_sequence *sequence = d->places[choice->place].sequence;
        double *row = memory_grow(NULL, logits->cols * (int64_t)sizeof *row);
        read_row(logits, i, row);
        choice->token = sample_token(&s->sampling, row, logits->cols, sequence->number, sequence->count);
        if (choice->token >= 0)
            choice->log_probability = sample_log_probability(row, logits->cols, choice->token);
        free(row);
    }
    if (s->agree != NULL)
        comm_broadcast(s->agree, d->choices, d->choice_count * (int64_t)sizeof *d->choices, 0);
}

/* Adds the sampled token to its sequence. Returns false if a logit was not finite. */
static bool append_token(struct decoding *d, const struct decode_choice *choice)
{
    const struct decode_settings *s = d->settings;
    struct cache_place *place = &d->places[choice->place];
    struct decode_sequence *sequence = place->sequence;
    if (choice->token < 0)
        return false;
    sequence->log_probability += choice->log_probability;
    const bool ends = s->ends[choice->token];
    if (ends) {
        sequence->end = DECODE_END_TOKEN;
    } else {
        sequence->tokens[sequence->count++] = choice->token;
        if (s->added != NULL)
            s->added(s->self, sequence, choice->token);
    }
    if (ends || sequence->count == sequence->most)
        place->sequence = NULL;
    return true;
}

static void count_call(const struct decoding *d, struct decode_rates *rates, double seconds)
{
    if (d->tokens == d->choice_count) {
        rates->added += d->choice_count;
        rates->steps++;
        rates->step_seconds += seconds;
    } else {
        rates->read += d->tokens;
        rates->read_seconds += seconds;
    }
}

static bool extend_sequences(struct decoding *d, struct decode_rates *rates)
{
    const double start = clock_seconds();
    const struct tensor logits = engine_extend(d->settings->engine, d->pieces, d->piece_count);
    bool finite = true;
    choose(d, &logits);
    for (int64_t i = 0; i < d->choice_count && finite; i++)
        finite = append_token(d, &d->choices[i]);
    count_call(d, rates, clock_seconds() - start);
    return finite;
}

static int64_t fill_places(struct decoding *d, struct decode_sequence *sequences, int64_t next, int64_t count)
{
    for (int64_t at = 0; at < d->settings->sequences && next < count; at++)
        if (d->places[at].sequence == NULL) {
            engine_truncate(d->settings->engine, at, 0);
            d->places[at] = (struct cache_place){&sequences[next++], 0};
        }
    return next;
}

bool decode(const struct decode_settings *settings, struct decode_sequence *sequences, int64_t count,
            struct decode_rates *rates)
{
    const int64_t places = settings->sequences;
    struct decoding d = {.settings = settings,
                         .places = memory_allocate(places * (int64_t)sizeof *d.places),
                         .pieces = memory_allocate(places * (int64_t)sizeof *d.pieces),
                         .choices = memory_allocate(places * (int64_t)sizeof *d.choices)};
    bool finite = true;
    int64_t next = 0;
    do {
        next = fill_places(&d, sequences, next, count);
        list_pieces(&d);
        finite = d.piece_count == 0 || extend_sequences(&d, rates);
    } while (finite && d.piece_count > 0);
    memory_free(d.places);
    memory_free(d.pieces);
    memory_free(d.choices);
    return finite;
}
