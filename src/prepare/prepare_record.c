#include "prepare/prepare_private.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/range.h"
#include "tokenizer/strand.h"

#include <stdlib.h>
#include <string.h>

static int put_tokens(struct prepare_run *prepare, const void *ids, int64_t count)
{
    duplicates_append(prepare->duplicates, ids, count * prepare->token_bytes);
    return spool_append(prepare->spool, ids, count);
}

/* Keeps a record's labels. *dropped: it has none, and such records are skipped. */
static int put_labels(struct prepare_run *prepare, const char *name, bool *dropped)
{
    *dropped = false;
    if (prepare->labels == NULL)
        return ERROR_NONE;
    int code = labels_keep(prepare->labels, name, prepare->length, dropped);
    prepare->unlabelled_records += *dropped;
    if (*dropped && !prepare->settings->skip_bad)
        code = error_user("--labels: record %s has no label \"%s\"; --skip-bad skips such records", name,
                          labels_lacking(prepare->labels));
    return code;
}

/* Ends a record that has tokens. */
static int put_record(struct prepare_run *prepare, const char *name)
{
    const bool equal = duplicates_end(prepare->duplicates);
    bool named = true, dropped;
    prepare->equal_records += equal;
    if (equal && prepare->settings->drop_duplicates)
        return spool_discard(prepare->spool);
    int code = put_labels(prepare, name, &dropped);
    if (code != ERROR_NONE || dropped)
        return code != ERROR_NONE ? code : spool_discard(prepare->spool);
    if (prepare->clusters != NULL)
        clusters_find(prepare->clusters, name, &named);
    prepare->loose_records += !named;
    if (!named && prepare->last_name == NULL)
        prepare->last_name = memory_string(name);
    if (prepare->split.by_column)
        split_give(&prepare->split, prepare->part);
    return spool_end(prepare->spool, name);
}

int prepare_append(struct prepare_run *prepare, const char *text, int64_t length)
{
    int code = ERROR_NONE;
    prepare->length += length;
    while (length > 0 && code == ERROR_NONE) {
        int64_t part = MIN(length, PREPARE_COPY);
        census_encode(&prepare->census, text, part, prepare->ids);
        code = put_tokens(prepare, prepare->ids, part);
        text += part;
        length -= part;
    }
    return code;
}

int prepare_append_residues(struct prepare_run *prepare, struct record_piece *piece)
{
    int code = record_stops_take(&prepare->stops, piece) ? prepare_append(prepare, "*", 1) : ERROR_NONE;
    return code == ERROR_NONE ? prepare_append(prepare, piece->text, piece->length) : code;
}

int prepare_gather(struct prepare_run *prepare, const char *text, int64_t length)
{
    struct prepare_whole *whole = &prepare->whole;
    if (whole->length + length > whole->capacity) {
        whole->capacity = 2 * (whole->length + length);
        whole->letters = memory_grow(whole->letters, whole->capacity);
    }
    memcpy(whole->letters + whole->length, text, (size_t)length);
    whole->length += length;
    return ERROR_NONE;
}

static int take_region(struct prepare_run *prepare, const struct bed_region *region)
{
    const int64_t count = region->end - region->start;
    if (region->end > prepare->whole.length)
        return error_user("%s:%lld: the region ends at %lld, but %s has %lld bases", prepare->regions.path,
                          (long long)region->line, (long long)region->end, region->record,
                          (long long)prepare->whole.length);
    char *letters = memory_allocate(count);
    for (int64_t i = 0; i < count; i++)
        letters[i] = region->reverse
                         ? (char)strand_complement((unsigned char)prepare->whole.letters[region->end - 1 - i])
                         : prepare->whole.letters[region->start + i];
    int code = prepare_append(prepare, letters, count);
    if (code == ERROR_NONE)
        code = put_record(prepare, region->name);
    census_end_record(&prepare->census, region->name);
    memory_free(letters);
    return code;
}

/* Takes the regions of the record that has been gathered. */
static int take_regions(struct prepare_run *prepare)
{
    int64_t count;
    int code = ERROR_NONE;
    const struct bed_region *regions = regions_of(&prepare->regions, prepare->name, &count);
    for (int64_t i = 0; i < count && code == ERROR_NONE; i++)
        code = take_region(prepare, &regions[i]);
    prepare->regions_taken += count;
    prepare->whole.length = 0;
    return code;
}

/* Notes the part of the record that ends; records end in the order in which they were read. */
static void next_part(struct prepare_run *prepare)
{
    if (prepare->split.by_column)
        prepare->part = prepare->parts[prepare->part_next++];
}

int prepare_end_record(struct prepare_run *prepare)
{
    int code = ERROR_NONE;
    if (prepare->name != NULL)
        next_part(prepare);
    if (prepare->name != NULL && prepare->regions.count > 0) {
        code = take_regions(prepare);
    } else if (prepare->name != NULL) {
        if (prepare->length > 0)
            code = put_record(prepare, prepare->name);
        else
            prepare->empty_records++;
        census_end_record(&prepare->census, prepare->name);
    }
    free(prepare->name);
    prepare->name = NULL;
    prepare->length = 0;
    record_stops_end(&prepare->stops);
    return code;
}

int prepare_take_text(void *self, const char *name, const void *ids, int64_t count)
{
    struct prepare_run *prepare = self;
    next_part(prepare);
    if (count == 0) {
        prepare->empty_records++;
        return ERROR_NONE;
    }
    int code = put_tokens(prepare, ids, count);
    return code == ERROR_NONE ? put_record(prepare, name) : code;
}
