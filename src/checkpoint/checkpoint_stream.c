/* Writes and reads the weights of a checkpoint in pieces, in one process and without an engine. */
#include "base/error.h"
#include "base/memory.h"
#include "base/progress.h"
#include "base/range.h"
#include "file/open.h"
#include "checkpoint/checkpoint_private.h"
#include "checkpoint/checkpoint_stream.h"
#include "file/file.h"

#include <fcntl.h>
#include <string.h>

enum { PIECE_ELEMENTS = PIECE_BYTES / (int)sizeof(float) };

static double megabytes(int64_t elements)
{
    return (double)elements * (double)sizeof(float) * 1e-6;
}

static int64_t elements_of(const struct model *model, int first, int end)
{
    int64_t elements = 0;
    for (int u = first; u < end; u++)
        for (int i = 0; i < model->units[u].parameter_count; i++)
            elements += model->units[u].parameters[i].rows * model->units[u].parameters[i].cols;
    return elements;
}

static int visit_pieces(const struct model *model, int first_unit, int end_unit, const char *what,
                        int (*visit)(void *self, const struct checkpoint_piece *piece), void *self)
{
    struct checkpoint_piece piece = {.number = 0, .staging = memory_allocate(PIECE_BYTES)};
    struct progress_line progress;
    int code = ERROR_NONE;
    progress_start(&progress, what, "MB", megabytes(elements_of(model, first_unit, end_unit)));
    for (int u = 0; u < first_unit; u++)
        piece.number += model->units[u].parameter_count;
    for (int u = first_unit; u < end_unit; u++)
        for (int i = 0; i < model->units[u].parameter_count; i++, piece.number++) {
            piece.parameter = &model->units[u].parameters[i];
            const int64_t elements = piece.parameter->rows * piece.parameter->cols;
            for (int64_t first = 0; first < elements && code == ERROR_NONE; first += PIECE_ELEMENTS) {
                int64_t rest = elements - first;
                piece.slab = (struct parameter_slab){first, MIN(rest, PIECE_ELEMENTS)};
                code = visit(self, &piece);
                progress_add(&progress, megabytes(piece.slab.count));
            }
        }
    progress_end(&progress);
    memory_free(piece.staging);
    return code;
}

/* -- Writing ----------------------------------------------------------------------------------------------------- */

struct stream_writer {
    int (*fill)(void *self, const struct checkpoint_piece *piece);
    void *self;
    const struct checkpoint_names *names;
    const int64_t *offsets;
    int descriptor;
    struct block_list blocks;
};

static int write_piece(void *self, const struct checkpoint_piece *piece)
{
    struct stream_writer *w = self;
    const int64_t width = (int64_t)sizeof(float);
    int code = w->fill(w->self, piece);
    if (code == ERROR_NONE)
        code = checkpoint_write_run(&w->blocks, w->descriptor, w->names->temporary, piece->staging,
                                    piece->slab.count * width, w->offsets[piece->number] + piece->slab.first * width);
    return code;
}

static int write_content(struct stream_writer *w, const struct model *model)
{
    const char *path = w->names->temporary;
    w->descriptor = open_own(path, O_WRONLY);
    if (w->descriptor < 0)
        return error_environment("%s: cannot open it: %s", path, open_failure());
    return file_finish(w->descriptor, path, visit_pieces(model, 0, model->unit_count, "writing", write_piece, w));
}

int checkpoint_stream_write(const struct model *model, const struct checkpoint_meta *meta, const char *path,
                            int (*fill)(void *self, const struct checkpoint_piece *piece), void *self)
{
    struct checkpoint_names names;
    checkpoint_names_create(&names, path);
    const int64_t table_bytes = (int64_t)sizeof(int64_t) * model_parameters(model);
    const struct checkpoint_layout layout = {
        .model = model, .dtype = DTYPE_F32, .kinds = PIECE_WEIGHT + 1, .offsets = memory_allocate(table_bytes)};
    struct stream_writer writer = {.fill = fill, .self = self, .names = &names, .offsets = layout.offsets};
    int code = checkpoint_lay_out(&layout, meta, names.temporary);
    if (code == ERROR_NONE)
        code = write_content(&writer, model);
    if (code == ERROR_NONE)
        code = checkpoint_publish(&writer.blocks, &names);
    if (code != ERROR_NONE)
        checkpoint_abandon(&names);
    block_list_destroy(&writer.blocks);
    memory_free(layout.offsets);
    checkpoint_names_destroy(&names);
    return code;
}

/* -- Reading ----------------------------------------------------------------------------------------------------- */

struct checkpoint_source {
    const char *path;
    hid_t file;
};

/* The file must have the tensors of units 0 .. end - 1. */
static int open_source(struct checkpoint_source *source, const struct model *model, int end)
{
    struct checkpoint_reading reading = {.kinds = PIECE_WEIGHT + 1, .new_adapters = end <= model->head + 1};
    struct hdf5_silence silence;
    hdf5_silence_begin(&silence);
    int code = checkpoint_open(&source->file, source->path);
    if (code == ERROR_NONE) {
        reading.new_head = end <= model->head && !checkpoint_has_task_head(source->file, model);
        code = checkpoint_check_tensors(source->file, source->path, model, &reading);
        if (code != ERROR_NONE)
            H5Fclose(source->file);
    }
    hdf5_silence_end(&silence);
    return code;
}

int checkpoint_source_open(struct checkpoint_source **out, const struct model *model, const char *path)
{
    struct checkpoint_source *source = memory_allocate(sizeof *source);
    source->path = path;
    int code = open_source(source, model, model->head);
    *out = code == ERROR_NONE ? source : NULL;
    if (code != ERROR_NONE)
        memory_free(source);
    return code;
}

int checkpoint_source_read(struct checkpoint_source *source, const struct checkpoint_piece *piece)
{
    char name[CHECKPOINT_DATASET_BYTES];
    struct hdf5_silence silence;
    checkpoint_dataset_name(name, PIECE_WEIGHT, piece->parameter);
    hdf5_silence_begin(&silence);
    hid_t dataset = hdf5_open_dataset(source->file, name);
    bool good =
        dataset >= 0 && checkpoint_read_slab(dataset, H5T_NATIVE_FLOAT, piece->parameter, piece->slab, piece->staging);
    H5Dclose(dataset);
    hdf5_silence_end(&silence);
    return good ? ERROR_NONE : checkpoint_refuse_tensor(source->path, name);
}

void checkpoint_source_close(struct checkpoint_source *source)
{
    if (source == NULL)
        return;
    H5Fclose(source->file);
    memory_free(source);
}

struct stream_reader {
    struct checkpoint_source source;
    int (*take)(void *self, const struct checkpoint_piece *piece);
    void *self;
};

static int read_piece(void *self, const struct checkpoint_piece *piece)
{
    struct stream_reader *r = self;
    int code = checkpoint_source_read(&r->source, piece);
    return code == ERROR_NONE ? r->take(r->self, piece) : code;
}

int checkpoint_stream_read(const struct model *model, int first, int end, const char *path,
                           int (*take)(void *self, const struct checkpoint_piece *piece), void *self)
{
    struct stream_reader reader = {.source.path = path, .take = take, .self = self};
    int code = open_source(&reader.source, model, end);
    if (code == ERROR_NONE) {
        code = visit_pieces(model, first, end, "reading", read_piece, &reader);
        H5Fclose(reader.source.file);
    }
    return code;
}
