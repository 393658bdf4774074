#include "prepare/split.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/random.h"
#include "base/range.h"

#include <ctype.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { BIN_BITS = 16, BINS = 1 << BIN_BITS };

int split_parse(struct data_split *split, const char *text, uint64_t seed)
{
    *split = (struct data_split){.parts = 1, .seed = seed};
    split->part[0].fraction = 1;
    if (text == NULL)
        return ERROR_NONE;
    const char *form =
        "--split %s: write name:fraction,name:fraction,... with fractions above 0 that sum to 1, such as "
        "train:0.95,valid:0.05";
    double sum = 0;
    int parts = 0;
    for (const char *from = text;; parts++) {
        size_t length = strcspn(from, ":,");
        if (length == 0 || length >= SPLIT_NAME_BYTES || from[length] != ':')
            return error_user(form, text);
        if (parts == SPLIT_PARTS)
            return error_user("--split %s: at most %d parts", text, SPLIT_PARTS);
        for (size_t i = 0; i < length; i++)
            if (!isalnum((unsigned char)from[i]) && from[i] != '_' && from[i] != '-')
                return error_user("--split %s: a part's name has letters, digits, '_' and '-' only", text);
        memcpy(split->part[parts].name, from, length);
        split->part[parts].name[length] = '\0';
        for (int i = 0; i < parts; i++)
            if (strcmp(split->part[i].name, split->part[parts].name) == 0)
                return error_user("--split %s: two parts are named %s", text, split->part[i].name);
        char *end;
        double fraction = strtod(from + length + 1, &end);
        if (end == from + length + 1 || (*end != ',' && *end != '\0') || !(fraction > 0 && fraction <= 1))
            return error_user(form, text);
        split->part[parts].fraction = fraction;
        sum += fraction;
        from = end + 1;
        if (*end == '\0')
            break;
    }
    split->parts = parts + 1;
    if (fabs(sum - 1) > 1e-9)
        return error_user("--split %s: the fractions sum to %.10g, not to 1", text, sum);
    return ERROR_NONE;
}

void split_by_column(struct data_split *split)
{
    static const char *const names[] = {"train", "valid", "test"};
    *split = (struct data_split){.parts = 3, .by_column = true};
    for (int i = 0; i < split->parts; i++)
        strcpy(split->part[i].name, names[i]);
}

void split_destroy(struct data_split *split)
{
    free(split->given);
    split->given = NULL;
}

int split_named(const char *text, int64_t length)
{
    static const struct {
        const char *name;
        int part;
    } known[] = {{"train", 0}, {"valid", 1}, {"validation", 1}, {"val", 1}, {"test", 2}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if ((int64_t)strlen(known[i].name) == length && memcmp(text, known[i].name, (size_t)length) == 0)
            return known[i].part;
    return -1;
}

void split_give(struct data_split *split, int part)
{
    if (split->given_count == split->given_capacity) {
        split->given_capacity = 2 * split->given_capacity + 1024;
        split->given = memory_grow(split->given, split->given_capacity);
    }
    split->given[split->given_count++] = (uint8_t)part;
}

void split_drop_empty(struct data_split *split, const int64_t *sequences)
{
    uint8_t number[SPLIT_PARTS];
    int kept = 0;
    for (int i = 0; i < split->parts; i++) {
        number[i] = (uint8_t)kept;
        if (sequences[i] > 0)
            split->part[kept++] = split->part[i];
    }
    for (int64_t r = 0; r < split->given_count; r++)
        split->given[r] = number[split->given[r]];
    split->parts = kept;
}

static bool is_whole(const struct data_split *split, int64_t length)
{
    return length <= SPLIT_WHOLE || split->clusters != NULL;
}

static int64_t block_count(const struct data_split *split, int64_t length)
{
    return !is_whole(split, length) ? (length + SPLIT_BLOCK - 1) / SPLIT_BLOCK : 1;
}

static int64_t block_length(const struct data_split *split, int64_t length, int64_t block)
{
    if (is_whole(split, length))
        return length;
    int64_t rest = length - block * SPLIT_BLOCK;
    return MIN(rest, SPLIT_BLOCK);
}

static struct random_key record_key(const struct data_split *split, const struct spool_record *record)
{
    const uint64_t name =
        split->clusters != NULL ? clusters_find(split->clusters, record->name, NULL) : random_hash_name(record->name);
    return (struct random_key){split->seed, RANDOM_SPLIT, name};
}

static int compare(const void *left, const void *right)
{
    const struct split_place *a = left, *b = right;
    if (a->hash != b->hash)
        return a->hash < b->hash ? -1 : 1;
    if (a->record != b->record)
        return a->record < b->record ? -1 : 1;
    return (a->block > b->block) - (a->block < b->block);
}

static int part_of(const struct data_split *split, const struct split_place *place)
{
    for (int i = 1; i < split->parts; i++)
        if (compare(place, &split->part[i].last) <= 0)
            return i;
    return 0;
}

/* A block; its place comes first so that `compare` orders blocks too. */
struct split_block {
    struct split_place place;
    int64_t length;
};

struct collection {
    struct split_block *blocks;
    int64_t count, capacity;
};

/* Visits all blocks. Adds their tokens to `bins` by the leading bits of the hash; if bins is NULL, collects the blocks
 * of one bin. */
static int scan(const struct data_split *split, struct spool *spool, int64_t *bins, uint64_t bin,
                struct collection *into)
{
    int code = spool_rewind(spool), more = 1;
    while (code == ERROR_NONE && more) {
        struct spool_record record;
        code = spool_next(spool, &record, &more);
        if (code != ERROR_NONE || !more)
            break;
        struct random_key key = record_key(split, &record);
        for (int64_t i = 0; i < block_count(split, record.length); i++) {
            uint64_t hash = random_bits(&key, (uint64_t)i);
            int64_t length = block_length(split, record.length, i);
            if (bins != NULL) {
                bins[hash >> (64 - BIN_BITS)] += length;
            } else if (hash >> (64 - BIN_BITS) == bin) {
                if (into->count == into->capacity) {
                    into->capacity = 2 * into->capacity + 1024;
                    into->blocks = memory_grow(into->blocks, into->capacity * (int64_t)sizeof *into->blocks);
                }
                into->blocks[into->count++] = (struct split_block){{hash, record.number, i}, length};
            }
        }
    }
    return code;
}

/* Finds the part's last block: up to it, the blocks in order of hash reach `target` tokens. *taken is the number
 * reached. Two passes with a histogram need constant memory, unlike sorting all blocks. */
static int choose_last(struct data_split *split, int part, struct spool *spool, const int64_t *bins, int64_t target,
                       int64_t *taken)
{
    int64_t before = 0;
    uint64_t bin = 0;
    while (before + bins[bin] < target)
        before += bins[bin++];
    struct collection blocks = {0};
    int code = scan(split, spool, NULL, bin, &blocks);
    if (code == ERROR_NONE) {
        qsort(blocks.blocks, (size_t)blocks.count, sizeof *blocks.blocks, compare);
        int64_t i = 0;
        for (before += blocks.blocks[0].length; before < target; i++)
            before += blocks.blocks[i + 1].length;
        const bool clusters = split->clusters != NULL;
        for (; clusters && i + 1 < blocks.count && blocks.blocks[i + 1].place.hash == blocks.blocks[i].place.hash; i++)
            before += blocks.blocks[i + 1].length;
        split->part[part].last = blocks.blocks[i].place;
        *taken = before;
    }
    free(blocks.blocks);
    return code;
}

static int refuse_empty(const struct data_split *split, int part, const struct spool *spool)
{
    if (split->clusters != NULL)
        return error_user(
            "--split: part %s would be empty: the clusters of %lld records are too few or too large, since "
            "no cluster is split",
            split->part[part].name, (long long)spool_records(spool));
    return error_user("--split: part %s would be empty: %lld tokens in %lld records are too few, since records of up "
                      "to %d tokens are not split",
                      split->part[part].name, (long long)spool_tokens(spool), (long long)spool_records(spool),
                      SPLIT_WHOLE);
}

int split_choose(struct data_split *split, struct spool *spool)
{
    if (split->parts == 1 || split->by_column)
        return ERROR_NONE;
    int64_t *bins = memory_allocate(BINS * (int64_t)sizeof *bins);
    int64_t total = spool_tokens(spool), taken = 0;
    int code = scan(split, spool, bins, 0, NULL);
    for (int i = 1; i < split->parts && code == ERROR_NONE; i++) {
        int64_t target = taken + (int64_t)ceil(split->part[i].fraction * (double)total - 1e-6);
        if (target <= taken || taken == total)
            code = refuse_empty(split, i, spool);
        else
            code = choose_last(split, i, spool, bins, MIN(target, total), &taken);
    }
    if (code == ERROR_NONE && taken == total)
        code = refuse_empty(split, 0, spool);
    memory_free(bins);
    return code;
}

struct split_piece split_piece(const struct data_split *split, const struct spool_record *record, int64_t start)
{
    struct split_piece piece = {0, start, record->length - start};
    if (split->by_column)
        piece.part = split->given[record->number];
    if (split->parts == 1 || split->by_column)
        return piece;
    struct random_key key = record_key(split, record);
    int64_t count = block_count(split, record->length), block = start / SPLIT_BLOCK;
    if (count == 1)
        block = 0;
    for (int64_t i = block; i < count; i++) {
        struct split_place place = {random_bits(&key, (uint64_t)i), record->number, i};
        int part = part_of(split, &place);
        if (i == block) {
            piece.part = part;
        } else if (part != piece.part) {
            piece.length = i * SPLIT_BLOCK - start;
            break;
        }
    }
    return piece;
}
