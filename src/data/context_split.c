#include "data/context_split.h"
#include "base/range.h"

#include <string.h>

/* A rank's part of a row: slices[0], then slices[1], which begins at token `second` of the local row. Ranges are in
 * tokens of the whole row. */
struct context_part {
    struct index_range slices[2];
    int64_t second;
};

static struct context_part part_of(int64_t row_tokens, int rank, int ranks)
{
    const int64_t slice = row_tokens / (2 * ranks);
    return (struct context_part){
        {{context_slice(rank, ranks, 0) * slice, slice}, {context_slice(rank, ranks, 1) * slice, slice}}, slice};
}

/* Returns how many of the segment's tokens before token `end` of the row are in the part. */
static int64_t count_before(const struct context_part *part, struct index_range segment, int64_t end)
{
    const struct index_range before = range_common(segment, (struct index_range){0, end});
    return range_common(part->slices[0], before).count + range_common(part->slices[1], before).count;
}

/* Returns where the segment begins in the local row; it has tokens there. */
static int64_t local_start(const struct context_part *part, struct index_range segment)
{
    const struct index_range first = range_common(part->slices[0], segment),
                             second = range_common(part->slices[1], segment);
    return first.count > 0 ? first.first - part->slices[0].first : part->second + second.first - part->slices[1].first;
}

void context_split_batch(const struct context_split *split, const struct batch *whole, struct batch *part)
{
    const struct context_part mine = part_of(whole->row_tokens, split->rank, split->ranks);
    part->number = whole->number * split->ranks + split->rank;
    part->valid = part->real = 0;
    int64_t at = 0;
    for (int64_t row = 0; row < whole->rows; row++) {
        for (int half = 0; half < 2; half++) {
            const int64_t count = mine.slices[half].count;
            const int64_t from = row * whole->row_tokens + mine.slices[half].first;
            memcpy(part->tokens + at, whole->tokens + from, (size_t)count * sizeof *part->tokens);
            memcpy(part->labels + at, whole->labels + from, (size_t)count * sizeof *part->labels);
            memcpy(part->positions + at, whole->positions + from, (size_t)count * sizeof *part->positions);
            memcpy(part->scale + at, whole->scale + from, (size_t)count * sizeof *part->scale);
            memcpy(part->dropout_keys + at, whole->dropout_keys + from, (size_t)count * sizeof *part->dropout_keys);
            for (int64_t t = at; t < at + count; t++)
                part->valid += part->labels[t] != BATCH_IGNORED;
            at += count;
        }
        for (int64_t s = row * whole->max_segments; s < (row + 1) * whole->max_segments; s++) {
            const struct index_range segment = {whole->segment_start[s] - row * whole->row_tokens,
                                                whole->segment_length[s]};
            part->real += count_before(&mine, segment, whole->row_tokens);
        }
    }
}

/* A slot of the tables. */
struct segment_slot {
    int64_t q_start, q_length, kv_start, kv_length, q_offset;
};

/* Returns the slot of one segment: queries of `mine` and the keys of `theirs` that they attend to, in local rows. */
static struct segment_slot slot_of(const struct context_part *mine, const struct context_part *theirs,
                                   struct index_range segment)
{
    const int64_t end = segment.first + segment.count;
    const int64_t queries = count_before(mine, segment, end), keys = count_before(theirs, segment, end);
    if (queries == 0 || keys == 0)
        return (struct segment_slot){0};
    return (struct segment_slot){local_start(mine, segment), queries, local_start(theirs, segment), keys, 0};
}

/* Causal version of slot_of, for the queries of one slice. `theirs` has all tokens of that slice or none: the keys
 * begin or end together with the queries, or all queries attend to the same keys. */
static struct segment_slot causal_slot_of(const struct context_part *mine, int half, const struct context_part *theirs,
                                          struct index_range segment)
{
    const struct index_range queries = range_common(mine->slices[half], segment);
    const int64_t keys = count_before(theirs, segment, queries.first + queries.count);
    if (queries.count == 0 || keys == 0)
        return (struct segment_slot){0};
    const int64_t start = (half == 0 ? 0 : mine->second) + queries.first - mine->slices[half].first;
    return (struct segment_slot){start, queries.count, local_start(theirs, segment), keys,
                                 count_before(theirs, segment, queries.first)};
}

void context_split_segments(const struct context_split *split, const struct batch *whole, bool causal, int owner,
                            int32_t *tables)
{
    const int64_t slots = context_slots(whole, causal), each = slots / context_halves(causal);
    const int64_t row_tokens = whole->row_tokens, local_tokens = row_tokens / split->ranks;
    const struct context_part mine = part_of(row_tokens, split->rank, split->ranks);
    const struct context_part theirs =
        owner < 0 ? (struct context_part){.slices = {{0, row_tokens}}} : part_of(row_tokens, owner, split->ranks);
    for (int64_t i = 0; i < slots; i++) {
        const int64_t s = i % each, row = s / whole->max_segments;
        const struct index_range segment = {whole->segment_start[s] - row * row_tokens, whole->segment_length[s]};
        const struct segment_slot slot =
            causal ? causal_slot_of(&mine, (int)(i / each), &theirs, segment) : slot_of(&mine, &theirs, segment);
        const bool used = slot.q_length > 0;
        tables[i] = used ? (int32_t)(row * local_tokens + slot.q_start) : 0;
        tables[slots + i] = (int32_t)slot.q_length;
        tables[2 * slots + i] = used ? (int32_t)(row * (owner < 0 ? row_tokens : local_tokens) + slot.kv_start) : 0;
        tables[3 * slots + i] = (int32_t)slot.kv_length;
        tables[4 * slots + i] = (int32_t)slot.q_offset;
    }
}
