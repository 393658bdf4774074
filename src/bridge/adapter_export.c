#include "bridge/adapter_export.h"
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "bridge/adapters.h"
#include "bridge/config.h"
#include "bridge/folder.h"
#include "bridge/peft.h"
#include "bridge/safetensors_writer.h"
#include "checkpoint/checkpoint.h"
#include "setup/model.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct adapter_export {
    const struct export_settings *given;
    char *path; /* of the checkpoint */
    struct model_settings settings;
    struct model model;
    struct adapter_values adapters;
};

static int read_settings(struct adapter_export *export)
{
    struct checkpoint_meta meta;
    int code = checkpoint_find_meta(export->given->checkpoint, &export->path, &meta);
    if (code != ERROR_NONE)
        return code;
    struct deck *deck = deck_create();
    code = deck_read_text(deck, meta.deck_text, export->path, NULL, 0);
    if (code == ERROR_NONE)
        code = model_settings_from_deck(&export->settings, deck, meta.vocabulary);
    memory_free(deck);
    checkpoint_meta_destroy(&meta);
    return code;
}

static int check(const struct adapter_export *export)
{
    if (export->settings.lora.rank == 0)
        return error_user("--adapter: %s has no adapters", export->path);
    const struct task_settings *task = &export->settings.task;
    if (task->problem == DECK_PROBLEM_REGRESSION && task->labels > 1)
        return error_user("--adapter: an adapter folder does not say that the %lld labels of %s are numbers; export "
                          "without --adapter, which merges the adapters",
                          (long long)task->labels, export->path);
    if (export->given->dialect != DIALECT_HF)
        return error_user("--adapter: only with --dialect hf, whose names peft uses");
    return task->head != DECK_HEAD_LM ? config_check(&export->settings, DIALECT_HF) : ERROR_NONE;
}

static int write_tensor(const struct adapter_export *export, struct safetensors_writer *writer, int64_t tensor,
                        const struct parameter *p, int number)
{
    const enum safetensors_dtype dtype = export->given->bf16 ? SAFETENSORS_BF16 : SAFETENSORS_F32;
    const int64_t count = p->rows * p->cols, bytes = count * safetensors_dtype_size(dtype);
    void *values = memory_allocate(bytes);
    safetensors_from_float(dtype, export->adapters.values[number], count, values);
    int code = safetensors_writer_write(writer, tensor, 0, bytes, values);
    memory_free(values);
    return code;
}

static int write_values(const struct adapter_export *export, struct safetensors_writer *writer)
{
    const struct model *model = &export->model;
    int number = 0, code = ERROR_NONE;
    int64_t tensor = 0;
    for (int u = 0; u < model->unit_count; u++)
        for (int i = 0; i < model->units[u].parameter_count && code == ERROR_NONE; i++, number++)
            if (u >= adapters_first_unit(model))
                code = write_tensor(export, writer, tensor++, &model->units[u].parameters[i], number);
    return code == ERROR_NONE ? safetensors_writer_commit(writer) : code;
}

static int64_t list_tensors(const struct adapter_export *export, struct safetensors_entry *entries)
{
    const struct model *model = &export->model;
    int64_t count = 0;
    for (int u = adapters_first_unit(model); u < model->unit_count; u++)
        for (int i = 0; i < model->units[u].parameter_count; i++) {
            const struct parameter *p = &model->units[u].parameters[i];
            const bool vector = p->storage == STORAGE_VECTOR;
            entries[count++] =
                (struct safetensors_entry){.name = memory_format(PEFT_PREFIX "%s", p->name),
                                           .dtype = export->given->bf16 ? SAFETENSORS_BF16 : SAFETENSORS_F32,
                                           .dims = vector ? 1 : 2,
                                           .shape = {vector ? p->cols : p->rows, p->cols}};
        }
    return count;
}

/* The writer's name of a single file is a model's; an adapter has one file only. */
static int rename_tensors(const char *folder)
{
    char *from = memory_format("%s/" SAFETENSORS_SINGLE, folder), *to = memory_format("%s/" PEFT_TENSORS, folder);
    int code =
        rename(from, to) == 0 ? ERROR_NONE : error_environment("%s: cannot rename it: %s", from, strerror(errno));
    free(from);
    free(to);
    return code;
}

static int write_tensors(const struct adapter_export *export, const char *folder)
{
    struct safetensors_writer *writer = NULL;
    struct safetensors_entry *entries = memory_allocate(model_parameters(&export->model) * (int64_t)sizeof *entries);
    const int64_t count = list_tensors(export, entries);
    uint64_t digest;
    int code = adapters_base_digest(&digest, &export->model, export->path);
    if (code == ERROR_NONE)
        code = safetensors_writer_create(&writer, folder, entries, count, INT64_MAX, digest);
    if (code == ERROR_NONE)
        code = write_values(export, writer);
    if (writer != NULL)
        safetensors_writer_destroy(writer);
    for (int64_t i = 0; i < count; i++)
        free((char *)entries[i].name);
    memory_free(entries);
    return code == ERROR_NONE ? rename_tensors(folder) : code;
}

static int write_folder(struct adapter_export *export)
{
    struct atomic_folder atomic;
    int code = atomic_folder_open(&atomic, export->given->folder);
    if (code != ERROR_NONE)
        return code;
    code = peft_write_config(&export->model, atomic.temporary);
    if (code == ERROR_NONE)
        code = write_tensors(export, atomic.temporary);
    return atomic_folder_close(&atomic, code);
}

int adapter_export_run(const struct export_settings *settings)
{
    struct adapter_export *export = memory_allocate(sizeof *export);
    export->given = settings;
    int code = folder_check(settings->folder, settings->replace);
    if (code == ERROR_NONE)
        code = read_settings(export);
    if (code == ERROR_NONE)
        code = check(export);
    if (code == ERROR_NONE) {
        model_create(&export->model, &export->settings, 1, 1);
        code = adapters_read(&export->adapters, &export->model, adapters_first_unit(&export->model), export->path);
        if (code == ERROR_NONE)
            code = write_folder(export);
        adapters_destroy(&export->adapters);
        model_destroy(&export->model);
    }
    if (code == ERROR_NONE)
        log_info("%s: adapters of rank %lld, %lld parameters in %s%s, for peft", settings->folder,
                 (long long)export->settings.lora.rank, (long long)model_adapter_count(&export->settings),
                 settings->bf16 ? "bf16" : "fp32", model_trains_head(&export->settings) ? ", and the head" : "");
    free(export->path);
    memory_free(export);
    return code;
}
