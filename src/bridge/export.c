#include "bridge/export.h"
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/range.h"
#include "base/signals.h"
#include "bridge/adapters.h"
#include "bridge/config.h"
#include "bridge/folder.h"
#include "bridge/frequencies.h"
#include "bridge/text_files.h"
#include "bridge/tokenizer_files.h"
#include "loader/data_set.h"
#include "data/tokenizer_member.h"
#include "tokenizer/tokenizer.h"
#include "checkpoint/carried.h"
#include "checkpoint/checkpoint_stream.h"
#include "bridge/safetensors_writer.h"
#include "setup/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct export
{
    const struct export_settings *given;
    char *path; /* path of the checkpoint */
    const struct tokenizer *tokenizer;
    uint64_t digest; /* digest of the state; 0 = unknown */
    struct model_settings settings;
    int64_t positions;
    char *labels; /* model.id2label; freed with free() */
    struct model model;
    struct adapter_values adapters;    /* merged into the weights */
    struct carried_files carried;      /* carried and added tensors */
    int dropped;                       /* carried tensors that the dialect does not have */
    struct dialect_place *places;      /* [model_parameters] location of each parameter */
    int64_t *tensors;                  /* [model_parameters] index of its entry */
    struct safetensors_entry *entries; /* [count] entries of parameters, then of carried tensors */
    int64_t count;
    struct safetensors_writer *writer;
    uint8_t *rounded; /* [ROUNDED_ELEMENTS] bf16 */
};

/* -- Reading the checkpoint ---------------------------------------------------------------------------------------- */

static int read_deck(struct export *export, const struct checkpoint_meta *meta)
{
    struct deck *deck = deck_create();
    int code = deck_read_text(deck, meta->deck_text, export->path, NULL, 0);
    if (code == ERROR_NONE)
        code = model_settings_from_deck(&export->settings, deck, meta->vocabulary);
    export->positions = model_trained_positions(deck);
    export->labels = memory_string(model_label_names(deck));
    memory_free(deck);
    if (code != ERROR_NONE)
        return code;
    code = config_check(&export->settings, export->given->dialect);
    const bool known = meta->tokenizer[0] != '\0' && strcmp(meta->tokenizer, data_set_plain_ids) != 0;
    if (code == ERROR_NONE && known)
        code = tokenizer_member_open(&export->tokenizer, export->path, meta->tokenizer);
    return code;
}

static int read_checkpoint(struct export *export)
{
    struct checkpoint_meta meta;
    int code = checkpoint_find_meta(export->given->checkpoint, &export->path, &meta);
    if (code != ERROR_NONE)
        return code;
    export->digest = meta.digest;
    code = read_deck(export, &meta);
    checkpoint_meta_destroy(&meta);
    if (code == ERROR_NONE)
        code = carried_read(export->path, &export->carried);
    return code;
}

/* -- Tensors that are not parameters ------------------------------------------------------------------------------- */

/* Returns whether one of the first `count` tensors has this part in its name. */
static bool carries(const struct carried_files *carried, int count, const char *part)
{
    for (int i = 0; i < count; i++)
        if (strstr(carried->tensors[i].name, part) != NULL)
            return true;
    return false;
}

/* Adds a tensor f32 [cols], or [rows, cols] if rows > 0. Returns its zeros, NULL on failure. */
static float *add_floats(struct export *export, const char *name, int64_t rows, int64_t cols)
{
    struct carried_tensor like = {.name = (char *)name, .dtype = "F32", .bytes = cols * (int64_t)sizeof(float)};
    if (rows > 0)
        like.shape[like.dims++] = rows;
    like.shape[like.dims++] = cols;
    like.bytes *= rows > 0 ? rows : 1;
    if (carried_add(&export->carried, export->path, &like) != ERROR_NONE)
        return NULL;
    return export->carried.tensors[export->carried.count - 1].data;
}

static void fill_table(const struct model_settings *s, float *table)
{
    for (int64_t i = 0; i < s->head_dim / 2; i++)
        table[i] = (float)rope_frequency(&s->rope, s->head_dim, i);
}

/* Recomputes carried tables of frequencies that are not the model's, because a deck changed its frequencies. */
static void renew_tables(struct export *export)
{
    const struct model_settings *s = &export->settings;
    for (int i = 0; i < export->carried.count; i++) {
        struct carried_tensor *t = &export->carried.tensors[i];
        if (!frequencies_named(t->name) || frequencies_error(&s->rope, s->head_dim, t) < FREQUENCIES_SAME)
            continue;
        log_warn("%s: %s does not follow from the model's frequencies and is recomputed", export->path, t->name);
        memory_free(t->data);
        *t = (struct carried_tensor){.name = t->name, .dtype = "F32", .dims = 1, .shape = {s->head_dim / 2}};
        t->bytes = t->shape[0] * (int64_t)sizeof(float);
        t->data = memory_allocate(t->bytes);
        fill_table(s, t->data);
    }
}

static bool add_extra(struct export *export, const struct family_extra *extra, const char *name)
{
    const struct model_settings *s = &export->settings;
    const bool table = extra->kind == EXTRA_FREQUENCIES;
    const int64_t cols = table ? s->head_dim / 2 : extra->kind == EXTRA_HEADS ? s->layers * s->heads : 1;
    float *values = add_floats(export, name, extra->kind == EXTRA_HEADS ? 1 : 0, cols);
    if (table && values != NULL)
        fill_table(s, values);
    return values != NULL;
}

/* Adds the family's extra tensors of the dialect, unless they are carried. */
static bool add_extras(struct export *export)
{
    const int carried = export->carried.count;
    bool good = true;
    for (const struct family_extra *extra = export->settings.family->extras; extra != NULL && extra->name != NULL;
         extra++) {
        if (extra->dialect != export->given->dialect || carries(&export->carried, carried, extra->part))
            continue;
        const int64_t count = strchr(extra->name, '%') != NULL ? export->settings.layers : 1;
        for (int64_t layer = 0; layer < count && good; layer++) {
            char *name = memory_format(extra->name, (long long)layer);
            good = add_extra(export, extra, name);
            free(name);
        }
    }
    return good;
}

/* Drops the carried tensors, which have no names in DIALECT_TE. */
static void drop_carried(struct export *export)
{
    const struct model_ends ends = export->carried.ends;
    export->dropped = export->carried.count;
    carried_destroy(&export->carried);
    export->carried.ends = ends;
}

static bool complete(struct export *export)
{
    if (export->given->dialect == DIALECT_TE)
        drop_carried(export);
    else if (export->settings.family->loads_frequencies)
        renew_tables(export);
    return add_extras(export);
}

/* -- Tensors ------------------------------------------------------------------------------------------------------- */

/* Returns the entry of that name, -1 if there is none. Only the last few entries can have it. */
static int64_t listed(const struct export *export, const char *name)
{
    for (int64_t i = export->count - 1; i >= 0 && i >= export->count - 8; i--)
        if (strcmp(export->entries[i].name, name) == 0)
            return i;
    return -1;
}

static void list_parameter(struct export *export, const struct parameter *p, int number)
{
    struct dialect_place *place = &export->places[number];
    const struct model_settings *s = &export->settings;
    dialect_place(place, export->given->dialect, s, s->vocabulary, p);
    export->tensors[number] = listed(export, place->name);
    if (export->tensors[number] >= 0)
        return;
    struct safetensors_entry *entry = &export->entries[export->count];
    export->tensors[number] = export->count++;
    entry->name = place->name;
    entry->dtype = export->given->bf16 ? SAFETENSORS_BF16 : SAFETENSORS_F32;
    entry->dims = place->dims;
    memcpy(entry->shape, place->shape, sizeof place->shape);
}

static int list_carried(struct export *export, const struct carried_tensor *t)
{
    struct safetensors_entry *entry = &export->entries[export->count++];
    entry->name = t->name;
    entry->dims = t->dims;
    memcpy(entry->shape, t->shape, sizeof entry->shape);
    if (safetensors_dtype_find(t->dtype, &entry->dtype))
        return ERROR_NONE;
    return error_user("%s: /carried/%s: its element type %s is unknown", export->path, t->name, t->dtype);
}

static int list_tensors(struct export *export)
{
    const int64_t parameters = model_parameters(&export->model), most = parameters + export->carried.count;
    int number = 0;
    export->places = memory_allocate(parameters * (int64_t)sizeof *export->places);
    export->tensors = memory_allocate(parameters * (int64_t)sizeof *export->tensors);
    export->entries = memory_allocate(most * (int64_t)sizeof *export->entries);
    for (int u = 0; u <= export->model.head; u++) /* adapters are merged */
        for (int i = 0; i < export->model.units[u].parameter_count; i++)
            list_parameter(export, &export->model.units[u].parameters[i], number++);
    int code = ERROR_NONE;
    for (int i = 0; i < export->carried.count && code == ERROR_NONE; i++)
        code = list_carried(export, &export->carried.tensors[i]);
    return code;
}

enum { ROUNDED_ELEMENTS = 1 << 20, BF16_BYTES = 2 };

static int write_floats(struct export *export, int64_t tensor, int64_t at, int64_t count, const float *values)
{
    const int64_t width = (int64_t)sizeof *values;
    if (!export->given->bf16)
        return safetensors_writer_write(export->writer, tensor, at * width, count * width, values);
    int code = ERROR_NONE;
    for (int64_t done = 0; done < count && code == ERROR_NONE; done += ROUNDED_ELEMENTS) {
        int64_t rest = count - done, n = MIN(rest, ROUNDED_ELEMENTS);
        safetensors_from_float(SAFETENSORS_BF16, values + done, n, export->rounded);
        code =
            safetensors_writer_write(export->writer, tensor, (at + done) * BF16_BYTES, n * BF16_BYTES, export->rounded);
    }
    return code;
}

static int write_piece(void *self, const struct checkpoint_piece *piece)
{
    struct export *export = self;
    const struct parameter_slab *slab = &piece->slab;
    int code = ERROR_NONE;
    if (signals_stopping())
        return error_environment("%s: stopped by a signal", export->given->folder);
    adapters_merge(&export->adapters, piece->parameter, *slab, piece->staging);
    for (int64_t done = 0; done < slab->count && code == ERROR_NONE;) {
        int64_t at, rest = slab->count - done;
        int64_t run = place_run(&export->places[piece->number], slab->first + done, &at);
        run = MIN(run, rest);
        code = write_floats(export, export->tensors[piece->number], at, run, piece->staging + done);
        done += run;
    }
    return code;
}

static int write_tensors(struct export *export, const char *folder)
{
    const int64_t parameters = export->count - export->carried.count;
    int code = safetensors_writer_create(&export->writer, folder, export->entries, export->count,
                                         export->given->shard_bytes, export->digest);
    if (code != ERROR_NONE)
        return code;
    export->rounded = memory_allocate(ROUNDED_ELEMENTS * BF16_BYTES);
    code = adapters_read(&export->adapters, &export->model, export->model.head + 1, export->path);
    if (code == ERROR_NONE)
        code = checkpoint_stream_read(&export->model, 0, export->model.head + 1, export->path, write_piece, export);
    adapters_destroy(&export->adapters);
    for (int i = 0; i < export->carried.count && code == ERROR_NONE; i++) {
        const struct carried_tensor *t = &export->carried.tensors[i];
        code = safetensors_writer_write(export->writer, parameters + i, 0, t->bytes, t->data);
    }
    if (code == ERROR_NONE)
        code = safetensors_writer_commit(export->writer);
    safetensors_writer_destroy(export->writer);
    memory_free(export->rounded);
    return code;
}

/* -- Writing the folder -------------------------------------------------------------------------------------------- */

static int write_characters(const struct export *export, int64_t tokens, const char *folder)
{
    const struct family *family = export->settings.family;
    const bool own = family->tokenizer != NULL && strcmp(export->tokenizer->name, family->tokenizer) == 0;
    const struct tokenizer_files of = {
        .class = own ? family->tokenizer_class : NULL, .ends = !model_causal(&export->settings), .tokens = tokens};
    return tokenizer_files_write(export->tokenizer, &of, folder);
}

static int write_files(struct export *export, const char *folder)
{
    int code =
        config_write(&export->settings, export->given->dialect, export->positions, export->tokenizer,
                     &export->carried.ends, export->labels, export->given->bf16 ? "bfloat16" : "float32", folder);
    const int64_t tokens = export->positions - export->settings.family->extra_positions;
    if (code == ERROR_NONE && export->tokenizer != NULL)
        code = tokenizer_is_text(export->tokenizer) ? text_files_write(export->tokenizer, tokens, folder)
                                                    : write_characters(export, tokens, folder);
    return code == ERROR_NONE ? write_tensors(export, folder) : code;
}

static int write_folder(struct export *export)
{
    struct atomic_folder atomic;
    int code = atomic_folder_open(&atomic, export->given->folder);
    if (code != ERROR_NONE)
        return code;
    return atomic_folder_close(&atomic, write_files(export, atomic.temporary));
}

static void log_transformer_engine(const struct export *export)
{
    const char *folder = export->given->folder;
    const struct family *family = export->settings.family;
    log_info("%s: needs BioNeMo's model classes: copy bionemo-recipes/%s into this folder as %s.py (auto_map names it)",
             folder, family->te.file, family->te.module);
    if (family->gelu && !export->settings.tanh_gelu)
        log_warn("%s: the model has model.gelu = \"erf\"; TransformerEngine computes GELU's tanh form, so its results "
                 "will differ slightly",
                 folder);
    if (export->settings.rope.rounding != DECK_ROUNDING_NONE)
        log_warn("%s: the model has model.rope_rounding; TransformerEngine's frequencies are not rounded, so its "
                 "results will differ slightly",
                 folder);
    if (export->dropped > 0 && family->te.lost != NULL)
        log_warn("%s: tensors left out, since they are not trained and this dialect does not have them: %d (%s)",
                 folder, export->dropped, family->te.lost);
}

static void log_result(const struct export *export)
{
    log_info("%s: %s, %lld parameters in %s%s", export->given->folder, export->settings.family->name,
             (long long)model_parameter_count(&export->settings), export->given->bf16 ? "bf16" : "fp32",
             export->settings.lora.rank > 0 ? ", with the adapters merged" : "");
    if (export->tokenizer == NULL)
        log_warn("%s: has no tokenizer files, since %s has none; copy them and generation_config.json from the "
                 "original model",
                 export->given->folder, export->path);
    if (export->given->dialect == DIALECT_TE)
        log_transformer_engine(export);
    else if (family_key(export->settings.family, CONFIG_GELU) != NULL && export->settings.tanh_gelu)
        log_warn("%s: the model has model.gelu = \"tanh\"; transformers' %s computes GELU by erf, so its results will "
                 "differ slightly",
                 export->given->folder, export->settings.family->title);
}

int export_run(const struct export_settings *settings)
{
    struct export *export = memory_allocate(sizeof *export);
    export->given = settings;
    int code = folder_check(settings->folder, settings->replace);
    if (code == ERROR_NONE)
        code = read_checkpoint(export);
    if (code == ERROR_NONE && !complete(export))
        code = ERROR_USER;
    if (code == ERROR_NONE) {
        model_create(&export->model, &export->settings, 1, 1);
        code = list_tensors(export);
        if (code == ERROR_NONE)
            code = write_folder(export);
        if (code == ERROR_NONE)
            log_result(export);
        model_destroy(&export->model);
    }
    memory_free(export->places);
    memory_free(export->tensors);
    memory_free(export->entries);
    carried_destroy(&export->carried);
    tokenizer_close(export->tokenizer);
    free(export->path);
    free(export->labels);
    memory_free(export);
    return code;
}
