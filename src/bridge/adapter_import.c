#include "bridge/adapter_import.h"
#include "base/error.h"
#include "base/faults.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/signals.h"
#include "bridge/adapters.h"
#include "bridge/peft.h"
#include "checkpoint/carried.h"
#include "checkpoint/checkpoint_stream.h"
#include "checkpoint/shape.h"
#include "data/tokenizer_member.h"
#include "deck/fields.h"
#include "file/disk.h"
#include "file/file.h"
#include "loader/data_set.h"
#include "setup/model.h"
#include "tokenizer/tokenizer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct adapter_import {
    const struct import_settings *given;
    char *base; /* path of the base's checkpoint */
    struct checkpoint_meta meta;
    struct deck *deck;
    struct model_settings settings; /* with the adapters, and with their head */
    bool new_head;                  /* of the folder; the base has a language-model head */
    bool saves_modules;             /* the folder says that it has modules besides adapters */
    struct model model;
    struct safetensors *st;
    struct adapter_values adapters;
    struct carried_files carried;
    const struct tokenizer *tokenizer;
    struct checkpoint_source *source;
};

/* -- The base ----------------------------------------------------------------------------------------------------- */

static int open_base(struct adapter_import *import)
{
    int code = checkpoint_find_meta(import->given->base, &import->base, &import->meta);
    if (code == ERROR_NONE)
        code = deck_read_text(import->deck, import->meta.deck_text, import->base, NULL, 0);
    if (code == ERROR_NONE)
        code = model_settings_from_deck(&import->settings, import->deck, import->meta.vocabulary);
    if (code == ERROR_NONE && import->settings.lora.rank > 0)
        return error_user("--base %s: has adapters already; merge them: cistron export, then cistron import",
                          import->given->base);
    if (code == ERROR_NONE)
        code = carried_read(import->base, &import->carried);
    const char *tokenizer = import->meta.tokenizer;
    if (code == ERROR_NONE && tokenizer[0] != '\0' && strcmp(tokenizer, data_set_plain_ids) != 0)
        code = tokenizer_member_open(&import->tokenizer, import->base, tokenizer);
    return code;
}

/* -- The folder's head --------------------------------------------------------------------------------------------- */

/* Gives the deck a fine-tuning head of the kind that adapter_config.json names, with as many labels as its output layer
 * has. As in transformers, one label is a number. */
static int add_head(struct adapter_import *import, enum deck_head head)
{
    const struct family *family = import->settings.family;
    const struct family_task *task = &family->task[head];
    if (task->architecture == NULL)
        return error_user("%s: is an adapter of a classifier, and models of family %s have no such head",
                          import->given->folder, family->name);
    char *name = memory_format(PEFT_PREFIX "%s.weight", task->output);
    const struct safetensors_entry *entry = safetensors_find(import->st, name);
    int code = ERROR_NONE;
    if (entry == NULL || entry->dims != 2 || entry->shape[0] < 1)
        code = error_user("%s: is an adapter of a classifier without its %s; its head would be random",
                          import->given->folder, name);
    else {
        import->new_head = true;
        import->deck->model.head = (int)head;
        import->deck->model.num_labels = entry->shape[0];
        import->deck->model.problem_type =
            head == DECK_HEAD_SEQUENCE && entry->shape[0] == 1 ? DECK_PROBLEM_REGRESSION : DECK_PROBLEM_CLASSIFICATION;
    }
    free(name);
    return code;
}

static int take_head(struct adapter_import *import, const struct peft_config *config)
{
    const enum deck_head base = import->settings.task.head;
    if (config->head != DECK_HEAD_LM && base == DECK_HEAD_LM)
        return add_head(import, config->head);
    if (config->head != DECK_HEAD_LM && config->head != base)
        return error_user("%s: its task_type is of another head than that of --base %s", import->given->folder,
                          import->given->base);
    if (base == DECK_HEAD_LM && config->saves_modules) /* the head is trained; other modules are refused */
        import->deck->train.freeze = DECK_FREEZE_TRUNK;
    return ERROR_NONE;
}

/* -- The folder --------------------------------------------------------------------------------------------------- */

static int open_adapters(struct adapter_import *import)
{
    const char *folder = import->given->folder;
    struct peft_config config;
    char *path = memory_format("%s/" PEFT_TENSORS, folder), *targets = NULL;
    int code = peft_read_config(&config, folder);
    import->saves_modules = code == ERROR_NONE && config.saves_modules;
    if (code == ERROR_NONE)
        code = safetensors_open(&import->st, path);
    if (code == ERROR_NONE) {
        targets = peft_targets(import->st, import->settings.family);
        if (targets == NULL || strlen(targets) >= sizeof import->deck->lora.targets)
            code = error_user("%s: has no adapter of a linear layer of a block of %s: it is an adapter of another base",
                              path, import->settings.family->title);
    }
    if (code == ERROR_NONE)
        code = take_head(import, &config);
    if (code == ERROR_NONE) {
        import->deck->lora.rank = config.lora.rank;
        import->deck->lora.alpha = config.lora.alpha;
        import->deck->lora.dropout = config.lora.dropout;
        strcpy(import->deck->lora.targets, targets);
        code = model_settings_from_deck(&import->settings, import->deck, import->meta.vocabulary);
    }
    free(targets);
    free(path);
    return code;
}

static int read_values(const struct safetensors *st, const struct safetensors_entry *entry, float *values)
{
    const int64_t count = entry->bytes / safetensors_dtype_size(entry->dtype);
    uint8_t *raw = memory_allocate(entry->bytes);
    int code = safetensors_read(st, entry, 0, entry->bytes, raw);
    if (code == ERROR_NONE)
        safetensors_to_float(entry->dtype, raw, count, values);
    memory_free(raw);
    for (int64_t i = 0; i < count && code == ERROR_NONE; i++)
        if (!isfinite(values[i]))
            code = error_user("%s: %s has NaN or infinite values", safetensors_path(st, entry), entry->name);
    return code;
}

/* Reads a tensor into import->adapters, or adds a fault. optional: the base may have it instead. */
static int take_tensor(struct adapter_import *import, const struct parameter *p, int number, bool optional, bool *used,
                       struct fault_list *faults)
{
    char name[160], wanted[SHAPE_TEXT], found[SHAPE_TEXT];
    const bool vector = p->storage == STORAGE_VECTOR;
    const int64_t shape[2] = {vector ? p->cols : p->rows, p->cols};
    const int dims = vector ? 1 : 2;
    snprintf(name, sizeof name, PEFT_PREFIX "%s", p->name);
    const struct safetensors_entry *entry = safetensors_find(import->st, name);
    if (entry == NULL) {
        if (!optional)
            faults_add(faults, "%s: is missing; the base has it as %s", name, shape_text(wanted, shape, dims));
        return ERROR_NONE;
    }
    used[entry - import->st->entries] = true;
    if (entry->dims != dims || memcmp(entry->shape, shape, (size_t)dims * sizeof *shape) != 0)
        faults_add(faults, "%s: is %s, but the base has it as %s", name, shape_text(found, entry->shape, entry->dims),
                   shape_text(wanted, shape, dims));
    else if (entry->dtype != SAFETENSORS_F32 && entry->dtype != SAFETENSORS_BF16 && entry->dtype != SAFETENSORS_F16)
        faults_add(faults, "%s: has element type %s; F32, BF16 and F16 can be read", name,
                   safetensors_dtype_name(entry->dtype));
    else
        return read_values(import->st, entry, adapters_place(&import->adapters, p, number));
    return ERROR_NONE;
}

/* Returns whether the base has a tensor of the head, which the folder then need not have: all of a head that was there
 * before, of a new one its final norm. */
static bool is_of_base(const struct adapter_import *import, const struct parameter *p)
{
    const char *norm = import->settings.family->names.final_norm;
    return !import->new_head || strncmp(p->name, norm, strlen(norm)) == 0;
}

/* Returns whether a tensor of the head was read. */
static bool has_head(const struct adapter_import *import)
{
    const struct model *model = &import->model;
    bool has = false;
    int number = 0;
    for (int u = 0; u <= model->head; u++)
        for (int i = 0; i < model->units[u].parameter_count; i++, number++)
            has |= import->adapters.values[number] != NULL;
    return has;
}

static int take_tensors(struct adapter_import *import)
{
    const struct model *model = &import->model;
    struct fault_list faults = {0};
    bool *used = memory_allocate((import->st->count + 1) * (int64_t)sizeof *used);
    int number = 0, code = ERROR_NONE;
    for (int u = 0; u < model->unit_count; u++)
        for (int i = 0; i < model->units[u].parameter_count && code == ERROR_NONE; i++, number++)
            if (u >= adapters_first_unit(model))
                code =
                    take_tensor(import, &model->units[u].parameters[i], number,
                                u == model->head && is_of_base(import, &model->units[u].parameters[i]), used, &faults);
    for (int64_t i = 0; i < import->st->count; i++)
        if (!used[i])
            faults_add(&faults, "%s: is neither an adapter nor of the head of the base", import->st->entries[i].name);
    if (import->saves_modules && !has_head(import))
        faults_add(&faults, "adapter_config.json: key modules_to_save: the folder has no tensor of the head");
    memory_free(used);
    const int verdict =
        faults_verdict(&faults, "%s: its tensors do not fit --base %s", import->given->folder, import->given->base);
    return code != ERROR_NONE ? code : verdict;
}

/* An adapter that this program exported names its base by a digest. */
static int check_digest(const struct adapter_import *import)
{
    uint64_t digest;
    if (import->st->digest == 0)
        return ERROR_NONE;
    int code = adapters_base_digest(&digest, &import->model, import->base);
    if (code == ERROR_NONE && digest != import->st->digest)
        code = error_user("%s: is an adapter of another base: the weights of --base %s are not those that it was "
                          "trained on",
                          import->given->folder, import->given->base);
    return code;
}

/* -- Writing ------------------------------------------------------------------------------------------------------ */

static int fill(void *self, const struct checkpoint_piece *piece)
{
    struct adapter_import *import = self;
    const float *values = import->adapters.values[piece->number];
    if (signals_stopping())
        return error_environment("%s: stopped by a signal", import->given->output);
    if (values == NULL)
        return checkpoint_source_read(import->source, piece);
    memcpy(piece->staging, values + piece->slab.first, (size_t)piece->slab.count * sizeof *values);
    return ERROR_NONE;
}

static int write_checkpoint(struct adapter_import *import)
{
    char *text = deck_print_effective(import->deck);
    struct checkpoint_meta meta = {.deck_text = text,
                                   .seed = import->deck->train.seed,
                                   .ranks = 1,
                                   .vocabulary = import->settings.vocabulary,
                                   .carried = &import->carried,
                                   .opened = import->tokenizer};
    snprintf(meta.version, sizeof meta.version, "%s", import->given->version);
    snprintf(meta.tokenizer, sizeof meta.tokenizer, "%s", import->meta.tokenizer);
    int code = checkpoint_source_open(&import->source, &import->model, import->base);
    if (code == ERROR_NONE)
        code = checkpoint_stream_write(&import->model, &meta, import->given->output, fill, import);
    checkpoint_source_close(import->source);
    free(text);
    return code;
}

static int import_open(struct adapter_import *import)
{
    model_create(&import->model, &import->settings, 1, 1);
    adapters_create(&import->adapters, &import->model);
    int code = take_tensors(import);
    if (code == ERROR_NONE)
        code = check_digest(import);
    if (code == ERROR_NONE)
        code = write_checkpoint(import);
    if (code == ERROR_NONE)
        log_info("%s: %s, %lld parameters, and %lld of adapters of rank %lld", import->given->output,
                 import->settings.family->name, (long long)model_parameter_count(&import->settings),
                 (long long)model_adapter_count(&import->settings), (long long)import->settings.lora.rank);
    adapters_destroy(&import->adapters);
    model_destroy(&import->model);
    return code;
}

int adapter_import_run(const struct import_settings *settings)
{
    struct adapter_import *import = memory_allocate(sizeof *import);
    import->given = settings;
    import->deck = deck_create();
    int code = file_check_place(settings->output);
    if (code == ERROR_NONE)
        code = disk_check_outside(settings->output, settings->folder, ".h5");
    if (code == ERROR_NONE)
        code = disk_check_output(settings->output, settings->replace ? DISK_REPLACE : 0, &settings->base, 1);
    if (code == ERROR_NONE)
        code = open_base(import);
    if (code == ERROR_NONE)
        code = open_adapters(import);
    if (code == ERROR_NONE)
        code = import_open(import);
    if (import->st != NULL)
        safetensors_close(import->st);
    carried_destroy(&import->carried);
    tokenizer_close(import->tokenizer);
    checkpoint_meta_destroy(&import->meta);
    memory_free(import->deck);
    free(import->base);
    memory_free(import);
    return code;
}
