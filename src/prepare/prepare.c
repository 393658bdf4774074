#include "prepare/prepare.h"
#include "base/available.h"
#include "base/clock.h"
#include "file/disk.h"
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/progress.h"
#include "base/range.h"
#include "prepare/census.h"
#include "prepare/duplicates.h"
#include "prepare/encoding.h"
#include "prepare/inputs.h"
#include "prepare/labels.h"
#include "records/record_reader.h"
#include "prepare/regions.h"
#include "prepare/repeats.h"
#include "records/source.h"
#include "prepare/split.h"
#include "file/spool.h"
#include "data/token_store.h"
#include "deck/deck.h"
#include "file/block.h"
#include "prepare/megatron_writer.h"
#include "prepare/token_store_writer.h"
#include "file/temporary.h"
#include "tokenizer/strand.h"
#include "base/thousands.h"

#include <inttypes.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { COPY_BYTES = 1 << 20 };

/* An output and its size. */
struct prepare_output {
    char *path;
    int64_t sequences, tokens, name_bytes;
    uint64_t checksum;
    struct store_writer *writer;
};

/* A record of which regions are taken. */
struct prepare_whole {
    char *letters; /* [capacity] */
    int64_t length, capacity;
};

struct prepare {
    const struct prepare_settings *settings;
    const struct tokenizer *tokenizer;
    bool megatron; /* write a Megatron data set */
    struct data_split split;
    struct spool *spool;
    struct progress_line progress;
    double start;       /* clock_seconds() before the first file */
    int64_t bytes_read; /* of the files that were read completely */
    char **sources;     /* [source_count]: "checksum path" */
    int64_t source_count;
    int64_t empty_records, skipped_records, low_quality, equal_records,
        loose_records;         /* equal to an earlier one; in no cluster */
    int64_t empty_files;       /* number of files without records */
    char *first_empty_file;    /* name of the first one, freed with free() */
    int64_t text_bytes;        /* bytes of encoded text */
    struct encoding *encoding; /* for text tokenizers; else NULL */
    int64_t token_bytes;
    uint8_t *ids;    /* [COPY_BYTES] */
    char *name;      /* name of the current record; NULL before the first */
    char *last_name; /* with clusters: name of a record, for a message */
    int64_t length;
    struct record_stops stops; /* for proteins */
    struct text_census census;
    struct repeats *repeats; /* with a split; else NULL */
    struct duplicates *duplicates;
    int fields;     /* number of fields of the current record so far: labels, then the split's column */
    uint8_t *parts; /* --split-column: [part_count] parts of the records that were read */
    int64_t part_count, part_capacity, part_next; /* part_next: of the next record that ends */
    int part;                                     /* of the record that ends */
    struct record_labels *labels;                 /* NULL: none */
    int64_t unlabelled_records;                   /* dropped because they have no label */
    struct clusters *clusters;                    /* NULL: none */
    struct bed_regions regions;                   /* empty: whole records are taken */
    struct prepare_whole whole;
    int64_t regions_taken;
    struct prepare_output outputs[SPLIT_PARTS];
};

static int make_folder(const char *output)
{
    char *folder = disk_folder(output), *at;
    int failure = disk_make_folder(folder, &at), code = ERROR_NONE;
    if (failure != 0)
        code = error_user("%s: its folder cannot be created: %s (folder %s)", output, strerror(failure), at);
    free(at);
    free(folder);
    return code;
}

static int choose_format(struct prepare *prepare)
{
    const char *format = prepare->settings->format;
    prepare->megatron = format != NULL && strcmp(format, "megatron") == 0;
    if (!prepare->megatron && format != NULL && strcmp(format, "store") != 0)
        return error_user("--format %s: must be store or megatron", format);
    if (prepare->settings->append_eod && !prepare->megatron)
        return error_user("--append-eod: needs --format megatron; a token store's windows get their end token when "
                          "they are read (data.eos)");
    return ERROR_NONE;
}

/* Checks the files of an output, none of which may be an input. */
static int check_output(const struct prepare *prepare, const char *output)
{
    static const char *const endings[] = {".bin", ".idx"};
    const struct prepare_settings *settings = prepare->settings;
    const int how = settings->replace ? DISK_REPLACE : 0;
    if (!prepare->megatron)
        return block_check_output(output, how, settings->inputs, settings->input_count);
    int code = ERROR_NONE;
    for (int i = 0; i < 2 && code == ERROR_NONE; i++) {
        char *path = memory_format("%s%s", output, endings[i]);
        code = block_check_output(path, how, settings->inputs, settings->input_count);
        free(path);
    }
    return code;
}

/* Returns the bytes of an output's name without its ending, .h5 or that of either file of a Megatron data set. */
static int stem_length(const char *out, bool megatron)
{
    static const char *const endings[] = {".h5", ".bin", ".idx"};
    const size_t length = strlen(out);
    for (int i = 0; i < (megatron ? 3 : 1); i++) {
        const size_t rest = strlen(endings[i]);
        if (length > rest && strcmp(out + length - rest, endings[i]) == 0)
            return (int)(length - rest);
    }
    return (int)length;
}

/* Makes and checks the outputs' paths; for Megatron data sets, prefixes. */
static int name_outputs(struct prepare *prepare)
{
    const struct prepare_settings *settings = prepare->settings;
    const char *out = settings->output, *ending = prepare->megatron ? "" : ".h5";
    const int length = stem_length(out, prepare->megatron);
    for (int i = 0; i < prepare->split.parts; i++) {
        struct prepare_output *output = &prepare->outputs[i];
        if (settings->split != NULL || settings->split_column != NULL)
            output->path = memory_format("%.*s.%s%s", length, out, prepare->split.part[i].name, ending);
        else
            output->path = prepare->megatron ? memory_format("%.*s", length, out) : memory_string(out);
        int code = check_output(prepare, output->path);
        if (code != ERROR_NONE)
            return code;
    }
    return ERROR_NONE;
}

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

static int put_tokens(struct prepare *prepare, const void *ids, int64_t count)
{
    duplicates_append(prepare->duplicates, ids, count * prepare->token_bytes);
    return spool_append(prepare->spool, ids, count);
}

/* Keeps a record's labels. *dropped: it has none, and such records are skipped. */
static int put_labels(struct prepare *prepare, const char *name, bool *dropped)
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
static int put_record(struct prepare *prepare, const char *name)
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

static int append(struct prepare *prepare, const char *text, int64_t length)
{
    int code = ERROR_NONE;
    prepare->length += length;
    while (length > 0 && code == ERROR_NONE) {
        int64_t part = MIN(length, COPY_BYTES);
        census_encode(&prepare->census, text, part, prepare->ids);
        code = put_tokens(prepare, prepare->ids, part);
        text += part;
        length -= part;
    }
    return code;
}

static int append_residues(struct prepare *prepare, struct record_piece *piece)
{
    int code = record_stops_take(&prepare->stops, piece) ? append(prepare, "*", 1) : ERROR_NONE;
    return code == ERROR_NONE ? append(prepare, piece->text, piece->length) : code;
}

/* Keeps a part of a record, of which regions are taken. */
static int gather(struct prepare *prepare, const char *text, int64_t length)
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

static int take_region(struct prepare *prepare, const struct bed_region *region)
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
    int code = append(prepare, letters, count);
    if (code == ERROR_NONE)
        code = put_record(prepare, region->name);
    census_end_record(&prepare->census, region->name);
    memory_free(letters);
    return code;
}

/* Takes the regions of the record that has been gathered. */
static int take_regions(struct prepare *prepare)
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
static void next_part(struct prepare *prepare)
{
    if (prepare->split.by_column)
        prepare->part = prepare->parts[prepare->part_next++];
}

static int end_record(struct prepare *prepare)
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

/* Stores an encoded record of text (encoding_take). */
static int take_text(void *self, const char *name, const void *ids, int64_t count)
{
    struct prepare *prepare = self;
    next_part(prepare);
    if (count == 0) {
        prepare->empty_records++;
        return ERROR_NONE;
    }
    int code = put_tokens(prepare, ids, count);
    return code == ERROR_NONE ? put_record(prepare, name) : code;
}

static int read_text(struct prepare *prepare, const struct record_piece *piece)
{
    if (piece->kind == RECORD_NAME)
        return encoding_name(prepare->encoding, piece->text, piece->length);
    prepare->text_bytes += piece->length;
    return encoding_text(prepare->encoding, piece->text, piece->length);
}

/* Takes a field of the current record, number `record` of a file. */
static int read_field(struct prepare *prepare, const struct record_piece *piece, const char *file, int64_t record)
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
static int list_fields(const struct prepare *prepare, const char *fields[RECORD_LABELS])
{
    int count = 0;
    const char *const *labels = prepare->labels != NULL ? labels_fields(prepare->labels, &count) : NULL;
    for (int i = 0; i < count; i++)
        fields[i] = labels[i];
    if (prepare->settings->split_column != NULL)
        fields[count++] = prepare->settings->split_column;
    return count;
}

static int read_characters(struct prepare *prepare, struct record_piece *piece)
{
    if (piece->kind == RECORD_SEQUENCE && prepare->regions.count > 0)
        return gather(prepare, piece->text, piece->length);
    if (piece->kind == RECORD_SEQUENCE)
        return prepare->tokenizer->bases ? append(prepare, piece->text, piece->length)
                                         : append_residues(prepare, piece);
    int code = end_record(prepare);
    if (prepare->labels != NULL)
        labels_begin(prepare->labels);
    if (piece->kind == RECORD_NAME)
        prepare->name = memory_format("%.*s", (int)piece->length, piece->text);
    return code;
}

static int read_records(struct prepare *prepare, struct record_source *source)
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

static int read_file(struct prepare *prepare, const char *path)
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

static char *piece_name(const struct spool_record *record, const struct split_piece *piece)
{
    if (piece->length == record->length)
        return memory_string(record->name);
    return memory_format("%s:%lld-%lld", record->name, (long long)piece->start + 1,
                         (long long)(piece->start + piece->length));
}

/* Copies a piece's tokens from the spool to its output. */
static int copy_piece(struct prepare *prepare, const struct split_piece *piece)
{
    int code = ERROR_NONE;
    const int64_t most = COPY_BYTES / prepare->token_bytes;
    struct store_writer *writer = prepare->outputs[piece->part].writer;
    for (int64_t rest = piece->length; rest > 0 && code == ERROR_NONE;) {
        int64_t part = MIN(rest, most);
        code = spool_read(prepare->spool, prepare->ids, part);
        if (code == ERROR_NONE)
            code = writer->class->append(writer, prepare->ids, part);
        if (prepare->repeats != NULL)
            repeats_append(prepare->repeats, prepare->ids, part * prepare->token_bytes);
        progress_add(&prepare->progress, (double)(part * prepare->token_bytes) * 1e-6);
        rest -= part;
    }
    if (prepare->repeats != NULL)
        repeats_end(prepare->repeats, piece->part);
    return code;
}

/* Visits all pieces of all records: counts what each output will have, or writes them. */
static int distribute(struct prepare *prepare, bool write)
{
    int more = 1, code = spool_rewind(prepare->spool);
    while (code == ERROR_NONE && more) {
        struct spool_record record;
        code = spool_next(prepare->spool, &record, &more);
        for (int64_t start = 0; code == ERROR_NONE && more && start < record.length;) {
            struct split_piece piece = split_piece(&prepare->split, &record, start);
            if (prepare->labels != NULL && piece.length != record.length)
                return error_user("--labels: record %s has %lld tokens, and --split divides records of more than %d; "
                                  "--clusters keeps records whole",
                                  record.name, (long long)record.length, SPLIT_WHOLE);
            struct prepare_output *output = &prepare->outputs[piece.part];
            char *name = piece_name(&record, &piece);
            if (write) {
                code = copy_piece(prepare, &piece);
                if (code == ERROR_NONE)
                    code = output->writer->class->end(output->writer, name);
                if (code == ERROR_NONE && prepare->labels != NULL)
                    code = labels_write(prepare->labels, record.number, output->writer);
            } else {
                output->sequences++;
                output->tokens += piece.length;
                output->name_bytes += (int64_t)strlen(name) + 1;
            }
            free(name);
            start += piece.length;
        }
    }
    return code;
}

/* Removes the outputs of parts that the column names for no record. */
static void drop_empty_outputs(struct prepare *prepare)
{
    int64_t sequences[SPLIT_PARTS];
    int kept = 0;
    for (int i = 0; i < prepare->split.parts; i++) {
        const struct prepare_output output = prepare->outputs[i];
        sequences[i] = output.sequences;
        prepare->outputs[i] = (struct prepare_output){0};
        if (output.sequences > 0)
            prepare->outputs[kept++] = output;
        else
            free(output.path);
    }
    split_drop_empty(&prepare->split, sequences);
}

static int write_outputs(struct prepare *prepare)
{
    int64_t sequences = 0;
    struct store_labels labels;
    int code = prepare->labels != NULL ? labels_finish(prepare->labels) : ERROR_NONE;
    if (code == ERROR_NONE && prepare->labels != NULL)
        labels = labels_of_store(prepare->labels);
    if (code == ERROR_NONE)
        code = split_choose(&prepare->split, prepare->spool);
    if (code == ERROR_NONE)
        code = distribute(prepare, false);
    if (code == ERROR_NONE && prepare->split.by_column)
        drop_empty_outputs(prepare);
    const int parts = prepare->split.parts;
    for (int i = 0; i < parts; i++)
        sequences += prepare->outputs[i].sequences;
    if (code == ERROR_NONE && parts > 1)
        prepare->repeats = repeats_create(sequences);
    for (int i = 0; i < parts && code == ERROR_NONE; i++) {
        struct prepare_output *output = &prepare->outputs[i];
        code = prepare->megatron
                   ? megatron_writer_create(&output->writer, output->path, prepare->tokenizer,
                                            prepare->settings->append_eod, output->sequences, output->tokens)
                   : token_store_writer_create(&output->writer, output->path, prepare->tokenizer, output->sequences,
                                               output->tokens, output->name_bytes,
                                               prepare->labels != NULL ? &labels : NULL);
    }
    progress_start(&prepare->progress, "writing", "MB",
                   (double)(spool_tokens(prepare->spool) * prepare->token_bytes) * 1e-6);
    if (code == ERROR_NONE)
        code = distribute(prepare, true);
    progress_end(&prepare->progress);
    for (int i = 0; i < parts && code == ERROR_NONE; i++) {
        struct prepare_output *output = &prepare->outputs[i];
        code =
            output->writer->class->finish(output->writer, prepare->sources, prepare->source_count, &output->checksum);
    }
    for (int i = 0; i < parts && code == ERROR_NONE; i++)
        code = prepare->outputs[i].writer->class->commit(prepare->outputs[i].writer);
    return code;
}

static void warn_of_repeats(const struct prepare *prepare)
{
    int64_t counts[SPLIT_PARTS];
    char *list = memory_string("");
    repeats_count(prepare->repeats, counts);
    for (int i = 1; i < prepare->split.parts; i++) {
        if (counts[i] == 0)
            continue;
        char *longer = memory_format("%s, %lld of the %lld in %s", list, (long long)counts[i],
                                     (long long)prepare->outputs[i].sequences, prepare->split.part[i].name);
        free(list);
        list = longer;
    }
    if (list[0] != '\0')
        log_warn("sequences that an earlier part of the split has too: %s; their loss is not a loss on unseen data. "
                 "Remove repeated sequences from the input first",
                 list + strlen(", "));
    free(list);
}

/* Reports the labels of the stores: the first few classes or numbers. */
static void report_labels(const struct prepare *prepare)
{
    enum { NAMED = 8 };
    const struct store_labels labels = labels_of_store(prepare->labels);
    char *list = memory_string("");
    const char *name = labels.names;
    for (int64_t i = 0; i < labels.count && i < NAMED; i++) {
        const int length = (int)(strchr(name, '\n') - name);
        char *longer = memory_format("%s%s%.*s", list, i > 0 ? ", " : "", length, name);
        free(list);
        list = longer;
        name += length + 1;
    }
    log_info("labels: %lld %s%s: %s%s", (long long)labels.count,
             labels.kind == STORE_LABEL_NUMBER  ? "number"
             : labels.kind == STORE_LABEL_TOKEN ? "token class"
                                                : "class",
             labels.count == 1                   ? ""
             : labels.kind == STORE_LABEL_NUMBER ? "s"
                                                 : "es",
             list, labels.count > NAMED ? ", ..." : "");
    if (prepare->unlabelled_records > 0)
        log_info("%lld record%s without a label skipped (--skip-bad)", (long long)prepare->unlabelled_records,
                 plural(prepare->unlabelled_records));
    free(list);
}

static void report(const struct prepare *prepare)
{
    int64_t total = spool_tokens(prepare->spool);
    for (int i = 0; i < prepare->split.parts; i++) {
        const struct prepare_output *output = &prepare->outputs[i];
        log_info("%s: %lld %s (%.2f %%) in %lld sequence%s, checksum %016" PRIx64, output->path,
                 (long long)output->tokens, tokenizer_token_noun(prepare->tokenizer),
                 100.0 * (double)output->tokens / (double)total, (long long)output->sequences,
                 plural(output->sequences), output->checksum);
    }
    if (prepare->empty_files > 0)
        log_warn("%lld of %lld files have no record; the first of these files is %s", (long long)prepare->empty_files,
                 (long long)prepare->source_count, prepare->first_empty_file);
    record_reader_report(prepare->skipped_records, prepare->settings->field);
    if (prepare->labels != NULL)
        report_labels(prepare);
    if (prepare->low_quality > 0)
        log_info("%lld read%s below --min-quality %g dropped", (long long)prepare->low_quality,
                 plural(prepare->low_quality), prepare->settings->min_quality);
    if (prepare->empty_records > 0)
        log_info("%lld empty record%s skipped", (long long)prepare->empty_records, plural(prepare->empty_records));
    if (prepare->equal_records > 0)
        log_info("%lld record%s with the sequence of an earlier one%s", (long long)prepare->equal_records,
                 plural(prepare->equal_records),
                 prepare->settings->drop_duplicates ? " dropped" : " (--drop-duplicates drops them)");
    if (prepare->loose_records > 0)
        log_warn("%s does not name %lld of %lld records; each of them is a cluster of its own",
                 prepare->settings->clusters, (long long)prepare->loose_records,
                 (long long)spool_records(prepare->spool));
    if (prepare->encoding != NULL)
        log_info("%lld bytes of text, %.3f a token", (long long)prepare->text_bytes,
                 (double)prepare->text_bytes / (double)total);
    census_report(&prepare->census, prepare->stops.dropped);
    if (prepare->repeats != NULL)
        warn_of_repeats(prepare);
    double seconds = clock_seconds() - prepare->start;
    log_info("%lld file%s, %.1f MB read in %.2f s (%.0f MB/s)", (long long)prepare->source_count,
             plural(prepare->source_count), (double)prepare->bytes_read * 1e-6, seconds,
             (double)prepare->bytes_read * 1e-6 / (seconds + 1e-9));
}

/* Returns the number of CPUs that this process may use, by its affinity mask and its container's quota. */
static int64_t count_cpus(void)
{
    cpu_set_t mask;
    const int cpus = sched_getaffinity(0, sizeof mask, &mask) == 0 ? CPU_COUNT(&mask) : 1;
    const double quota = available_cpus("");
    return quota < 1 ? 1 : quota < cpus ? (int64_t)quota : cpus;
}

static int open_tokenizer(struct prepare *prepare)
{
    const struct prepare_settings *settings = prepare->settings;
    int code = tokenizer_open(&prepare->tokenizer, settings->tokenizer);
    if (code != ERROR_NONE)
        return code;
    prepare->token_bytes = token_store_token_bytes(prepare->tokenizer->vocabulary);
    code = census_start(&prepare->census, prepare->tokenizer, settings->letter_case);
    if (code != ERROR_NONE || !tokenizer_is_text(prepare->tokenizer))
        return code;
    if (settings->threads < 0 || settings->threads > DECK_MAXIMUM_THREADS)
        return error_user("--threads %lld: must be 0 (one for each CPU) to %d", (long long)settings->threads,
                          DECK_MAXIMUM_THREADS);
    prepare->encoding = encoding_create(prepare->tokenizer, settings->threads > 0 ? settings->threads : count_cpus(),
                                        &prepare->census, take_text, prepare);
    return ERROR_NONE;
}

static int refuse_nothing(const struct prepare *prepare)
{
    if (prepare->skipped_records > 0)
        return error_user(
            "%s: no record has a sequence: --skip-bad skipped %lld; name the field of the sequence with --field",
            prepare->settings->inputs[0], (long long)prepare->skipped_records);
    if (prepare->empty_files == prepare->source_count)
        return error_user("%s: has no record", prepare->first_empty_file);
    return error_user("%s: no record has a sequence, there is nothing to store", prepare->settings->inputs[0]);
}

static int open_clusters(struct prepare *prepare)
{
    const struct prepare_settings *settings = prepare->settings;
    if (settings->clusters == NULL)
        return ERROR_NONE;
    if (settings->split == NULL)
        return error_user("--clusters: needs --split, which keeps clusters together");
    int code = clusters_read(&prepare->clusters, settings->clusters);
    prepare->split.clusters = prepare->clusters;
    return code;
}

static int open_split(struct prepare *prepare)
{
    const struct prepare_settings *settings = prepare->settings;
    if (settings->split_column == NULL)
        return split_parse(&prepare->split, settings->split, settings->seed);
    if (settings->split != NULL)
        return error_user("--split and --split-column: give only one of them");
    split_by_column(&prepare->split);
    return ERROR_NONE;
}

static int open_regions(struct prepare *prepare)
{
    const char *path = prepare->settings->regions;
    if (path == NULL)
        return ERROR_NONE;
    if (!prepare->tokenizer->bases)
        return error_user("--regions: needs nucleotides, but the tokenizer is %s", prepare->tokenizer->name);
    return regions_read(&prepare->regions, path);
}

static int open_labels(struct prepare *prepare)
{
    const struct prepare_settings *settings = prepare->settings;
    if (settings->labels == NULL && (settings->label_kind != NULL || settings->classes != NULL))
        return error_user("--%s: needs --labels", settings->label_kind != NULL ? "label-kind" : "classes");
    if (settings->labels == NULL)
        return ERROR_NONE;
    if (prepare->megatron || settings->regions != NULL || prepare->encoding != NULL)
        return error_user("--labels: not with %s", prepare->megatron           ? "--format megatron"
                                                   : settings->regions != NULL ? "--regions"
                                                                               : "a tokenizer of text");
    int code = labels_create(&prepare->labels, settings->labels, settings->label_kind, settings->classes), count = 0;
    if (code == ERROR_NONE && settings->split_column != NULL && labels_fields(prepare->labels, &count) != NULL &&
        count == RECORD_LABELS)
        code = error_user("--labels: at most %d fields, with --split-column %d", RECORD_LABELS, RECORD_LABELS - 1);
    return code;
}

/* After all files: whether their records had the regions. */
static int check_regions(const struct prepare *prepare)
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

static int run(struct prepare *prepare)
{
    const struct prepare_settings *settings = prepare->settings;
    if (settings->input_count < 1)
        return error_user("prepare: no input file given ('-' is standard input)");
    int code = choose_format(prepare);
    if (code == ERROR_NONE)
        code = open_tokenizer(prepare);
    if (code == ERROR_NONE)
        code = open_split(prepare);
    if (code == ERROR_NONE)
        code = open_clusters(prepare);
    if (code == ERROR_NONE)
        code = open_regions(prepare);
    if (code == ERROR_NONE)
        code = open_labels(prepare);
    if (code == ERROR_NONE)
        code = name_outputs(prepare);
    if (code == ERROR_NONE)
        code = make_folder(settings->output);
    if (code == ERROR_NONE)
        code = spool_create(&prepare->spool, settings->output, prepare->token_bytes);
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
    if (code == ERROR_NONE)
        code = write_outputs(prepare);
    if (code == ERROR_NONE)
        report(prepare);
    return code;
}

int prepare_run(const struct prepare_settings *given)
{
    struct prepare_settings settings = *given;
    struct prepare prepare = {.settings = &settings};
    struct prepare_inputs inputs;
    int code = inputs_expand(&inputs, given->inputs, given->input_count);
    settings.inputs = (const char *const *)inputs.paths;
    settings.input_count = inputs.count;
    prepare.sources = memory_allocate((inputs.count + 1) * (int64_t)sizeof *prepare.sources);
    prepare.ids = memory_allocate(COPY_BYTES);
    prepare.duplicates = duplicates_create();
    temporary_catch_signals();
    if (code == ERROR_NONE)
        code = run(&prepare);
    for (int i = 0; i < SPLIT_PARTS; i++) {
        if (prepare.outputs[i].writer != NULL)
            prepare.outputs[i].writer->class->destroy(prepare.outputs[i].writer);
        free(prepare.outputs[i].path);
    }
    temporary_release_signals();
    for (int64_t i = 0; i < prepare.source_count; i++)
        free(prepare.sources[i]);
    encoding_destroy(prepare.encoding);
    tokenizer_close(prepare.tokenizer);
    spool_destroy(prepare.spool);
    repeats_destroy(prepare.repeats);
    duplicates_destroy(prepare.duplicates);
    clusters_destroy(prepare.clusters);
    regions_destroy(&prepare.regions);
    labels_destroy(prepare.labels);
    split_destroy(&prepare.split);
    free(prepare.parts);
    free(prepare.whole.letters);
    free(prepare.last_name);
    free(prepare.name);
    free(prepare.first_empty_file);
    memory_free(prepare.sources);
    memory_free(prepare.ids);
    inputs_destroy(&inputs);
    return code;
}
