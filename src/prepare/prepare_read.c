#include "prepare/prepare_private.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/range.h"
#include "records/record_reader.h"
#include "records/source.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Returns the bytes of all inputs; 0: unknown, since one is a pipe. */
static int64_t count_bytes(const struct prepare_settings *settings)
{
    int64_t bytes = 0;
    for (int64_t i = 0; i < settings->input_count; i++) {
        struct stat status;
        if (stat(settings->inputs[i], &status) != 0 || !S_ISREG(status.st_mode))
            return 0;
        bytes += status.st_size;
    }
    return bytes;
}

static int read_text(struct prepare_run *prepare, const struct record_piece *piece)
{
    if (piece->kind == RECORD_NAME)
        return encoding_name(prepare->encoding, piece->text, piece->length);
    prepare->text_bytes += piece->length;
    return encoding_text(prepare->encoding, piece->text, piece->length);
}

/* Takes a field of the current record, number `record` of a file. */
static int read_field(struct prepare_run *prepare, const struct record_piece *piece, const char *file, int64_t record)
{
    int labels = 0;
    if (prepare->labels != NULL)
        labels_fields(prepare->labels, &labels);
    if (prepare->fields++ < labels) {
        labels_add(prepare->labels, piece->text, piece->length);
        return ERROR_NONE;
    }
    const int part = split_named(piece->text, piece->length);
    if (part < 0)
        return error_user(
            "%s: --split-column %s: record number %lld has \"%.*s\"; it must be train, valid (validation, "
            "val) or test",
            file, prepare->settings->split_column, (long long)record, (int)MIN(piece->length, 40), piece->text);
    if (prepare->part_count == prepare->part_capacity) {
        prepare->part_capacity = 2 * prepare->part_capacity + 1024;
        prepare->parts = memory_grow(prepare->parts, prepare->part_capacity);
    }
    prepare->parts[prepare->part_count++] = (uint8_t)part;
    return ERROR_NONE;
}

/* Lists the fields that readers return of each record: labels, then the split's column. */
static int list_fields(const struct prepare_run *prepare, const char *fields[RECORD_LABELS])
{
    int count = 0;
    const char *const *labels = prepare->labels != NULL ? labels_fields(prepare->labels, &count) : NULL;
    for (int i = 0; i < count; i++)
        fields[i] = labels[i];
    if (prepare->settings->split_column != NULL)
        fields[count++] = prepare->settings->split_column;
    return count;
}

static int read_characters(struct prepare_run *prepare, struct record_piece *piece)
{
    if (piece->kind == RECORD_SEQUENCE && prepare->regions.count > 0)
        return prepare_gather(prepare, piece->text, piece->length);
    if (piece->kind == RECORD_SEQUENCE)
        return prepare->tokenizer->bases ? prepare_append(prepare, piece->text, piece->length)
                                         : prepare_append_residues(prepare, piece);
    int code = prepare_end_record(prepare);
    if (prepare->labels != NULL)
        labels_begin(prepare->labels);
    if (piece->kind == RECORD_NAME)
        prepare->name = memory_format("%.*s", (int)piece->length, piece->text);
    return code;
}

static int read_records(struct prepare_run *prepare, struct record_source *source)
{
    const bool text = prepare->encoding != NULL;
    struct record_reader *reader;
    struct record_piece piece = {.kind = RECORD_NAME};
    struct record_settings settings = {.format = prepare->settings->input_format,
                                       .field = prepare->settings->field,
                                       .content = text ? RECORD_BYTES : RECORD_CHARACTERS,
                                       .may_be_empty = true,
                                       .min_quality = prepare->settings->min_quality,
                                       .low_quality = &prepare->low_quality,
                                       .feature = prepare->settings->feature,
                                       .skipped = prepare->settings->skip_bad ? &prepare->skipped_records : NULL};
    const char *fields[RECORD_LABELS];
    settings.labels = fields;
    settings.label_count = list_fields(prepare, fields);
    int64_t records = 0;
    int code = record_reader_create(&reader, source, &settings);
    while (code == ERROR_NONE && piece.kind != RECORD_END) {
        code = record_reader_next(reader, &piece);
        if (code != ERROR_NONE)
            break;
        records += piece.kind == RECORD_NAME;
        if (piece.kind == RECORD_NAME)
            prepare->fields = 0;
        if (piece.kind == RECORD_LABEL)
            code = read_field(prepare, &piece, source_name(source), records);
        else if (!text)
            code = read_characters(prepare, &piece);
        else if (piece.kind != RECORD_END)
            code = read_text(prepare, &piece);
        if (text || piece.kind != RECORD_SEQUENCE)
            progress_set(&prepare->progress, (double)(prepare->bytes_read + source_raw_bytes(source)) * 1e-6);
    }
    record_reader_destroy(reader);
    if (code == ERROR_NONE && records == 0 && prepare->empty_files++ == 0)
        prepare->first_empty_file = memory_string(source_name(source));
    return code;
}

static int read_file(struct prepare_run *prepare, const char *path)
{
    struct record_source *source;
    int code = source_open(&source, path);
    if (code != ERROR_NONE)
        return code;
    code = read_records(prepare, source);
    prepare->sources[prepare->source_count++] =
        memory_format("%016" PRIx64 " %s", source_checksum(source), source_name(source));
    prepare->bytes_read += source_raw_bytes(source);
    source_close(source);
    return code;
}

/* After all files: whether their records had the regions. */
static int check_regions(const struct prepare_run *prepare)
{
    const struct bed_regions *regions = &prepare->regions;
    const int64_t missing = regions->count - prepare->regions_taken;
    if (missing == 0)
        return ERROR_NONE;
    if (prepare->regions_taken == 0)
        return error_user("--regions %s: no record of the input has one of its names, such as %s", regions->path,
                          regions->list[0].record);
    log_warn("%s: %lld of %lld regions are of records that the input does not have", regions->path, (long long)missing,
             (long long)regions->count);
    return ERROR_NONE;
}

static int refuse_nothing(const struct prepare_run *prepare)
{
    if (prepare->skipped_records > 0)
        return error_user(
            "%s: no record has a sequence: --skip-bad skipped %lld; name the field of the sequence with --field",
            prepare->settings->inputs[0], (long long)prepare->skipped_records);
    if (prepare->empty_files == prepare->source_count)
        return error_user("%s: has no record", prepare->first_empty_file);
    return error_user("%s: no record has a sequence, there is nothing to store", prepare->settings->inputs[0]);
}

int prepare_read(struct prepare_run *prepare)
{
    const struct prepare_settings *settings = prepare->settings;
    int code = ERROR_NONE;
    prepare->start = clock_seconds();
    progress_start(&prepare->progress, "reading", "MB", (double)count_bytes(settings) * 1e-6);
    for (int64_t i = 0; i < settings->input_count && code == ERROR_NONE; i++)
        code = read_file(prepare, settings->inputs[i]);
    if (code == ERROR_NONE && prepare->encoding != NULL)
        code = encoding_finish(prepare->encoding);
    progress_end(&prepare->progress);
    if (code == ERROR_NONE)
        code = check_regions(prepare);
    if (code == ERROR_NONE && spool_records(prepare->spool) == 0)
        code = refuse_nothing(prepare);
    if (code == ERROR_NONE && prepare->clusters != NULL && prepare->loose_records == spool_records(prepare->spool))
        code =
            error_user("--clusters %s: names none of the records; its names must be the first words of headers, here "
                       "such as %s",
                       settings->clusters, prepare->last_name);
    return code;
}
