#include "prepare/prepare_private.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/range.h"
#include "file/block.h"
#include "file/disk.h"
#include "prepare/megatron_writer.h"
#include "prepare/token_store_writer.h"

#include <stdlib.h>
#include <string.h>

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

/* Checks the files of an output, none of which may be an input. */
static int check_output(const struct prepare_run *prepare, const char *output)
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

int prepare_name_outputs(struct prepare_run *prepare)
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
    return make_folder(out);
}

static char *piece_name(const struct spool_record *record, const struct split_piece *piece)
{
    if (piece->length == record->length)
        return memory_string(record->name);
    return memory_format("%s:%lld-%lld", record->name, (long long)piece->start + 1,
                         (long long)(piece->start + piece->length));
}

/* Copies a piece's tokens from the spool to its output. */
static int copy_piece(struct prepare_run *prepare, const struct split_piece *piece)
{
    int code = ERROR_NONE;
    const int64_t most = PREPARE_COPY / prepare->token_bytes;
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
static int distribute(struct prepare_run *prepare, bool write)
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
static void drop_empty_outputs(struct prepare_run *prepare)
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

int prepare_write(struct prepare_run *prepare)
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
