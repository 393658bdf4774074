/* Reads a checkpoint into an engine: checks that it fits, and reads slabs with HDF5. */
#include "base/error.h"
#include "base/faults.h"
#include "base/memory.h"
#include "checkpoint/checkpoint_private.h"
#include "checkpoint/shape.h"
#include "engine/engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* -- Comparison of file and model (rank 0) ----------------------------------------------------------------------- */

static void print_shape(char out[SHAPE_TEXT], const hsize_t dims[2], int ndims)
{
    shape_text(out, (int64_t[2]){(int64_t)dims[0], (int64_t)dims[1]}, ndims);
}

static void check_dataset(hid_t file, enum piece_kind kind, const struct parameter *p, struct fault_list *faults)
{
    char name[CHECKPOINT_DATASET_BYTES], wanted[SHAPE_TEXT], found[SHAPE_TEXT] = "[...]";
    hsize_t model_dims[2] = {0, 0}, dims[2] = {0, 0};
    int model_ndims = checkpoint_dimensions(p, model_dims), ndims = -1;
    checkpoint_dataset_name(name, kind, p);
    print_shape(wanted, model_dims, model_ndims);
    hid_t dataset = hdf5_open_dataset(file, name);
    if (dataset < 0) {
        if (hdf5_has(file, name))
            faults_add(faults, "/%s: %s", name, hdf5_foreign);
        else
            faults_add(faults, "/%s: is missing; the model has it as %s", name, wanted);
        return;
    }
    hid_t space = H5Dget_space(dataset), type = H5Dget_type(dataset);
    ndims = H5Sget_simple_extent_ndims(space);
    if (ndims >= 0 && ndims <= 2) {
        H5Sget_simple_extent_dims(space, dims, NULL);
        print_shape(found, dims, ndims);
    }
    if (strcmp(found, wanted) != 0)
        faults_add(faults, "/%s: is %s in the file, %s in the model", name, found, wanted);
    else if (H5Tget_class(type) != H5T_FLOAT)
        faults_add(faults, "/%s: is not of a floating-point type", name);
    H5Tclose(type);
    H5Sclose(space);
    H5Dclose(dataset);
}

/* -- A new head on a trunk, and new adapters ---------------------------------------------------------------------- */

static bool begins_with(const char *name, const char *prefix)
{
    return prefix != NULL && strncmp(name, prefix, strlen(prefix)) == 0;
}

/* Returns whether a parameter is one of a fine-tuning head's linear layers. */
static bool is_of_task_head(const struct model *model, const struct unit *unit, const struct parameter *parameter)
{
    return unit == model_head(model) && !begins_with(parameter->name, model->settings.family->names.final_norm);
}

/* Returns whether the tensor belongs to the family's language-model head, its final norm excluded. */
static bool is_of_lm_head(const struct family *family, const char *name)
{
    const struct family_names *names = &family->names;
    return begins_with(name, names->dense) || begins_with(name, names->head_norm) ||
           begins_with(name, names->decoder) || begins_with(name, names->decoder_bias);
}

static void check_new(hid_t file, const struct parameter *p, struct fault_list *faults)
{
    char name[CHECKPOINT_DATASET_BYTES];
    checkpoint_dataset_name(name, PIECE_WEIGHT, p);
    if (hdf5_has(file, name))
        faults_add(faults, "/%s: belongs to a head, of which the file does not say what it is", name);
}

/* Returns whether the parameter keeps the engine's values. */
static bool is_new(const struct model *model, const struct unit *unit, const struct parameter *parameter,
                   const struct checkpoint_reading *reading)
{
    return (reading->new_head && is_of_task_head(model, unit, parameter)) ||
           (reading->new_adapters && unit->index > model->head);
}

static void mark_new(const struct model *model, const struct checkpoint_reading *reading, int64_t *places)
{
    for (int kind = 0; kind < reading->kinds; kind++)
        for (int u = 0; u < model->unit_count; u++)
            for (int i = 0; i < model->units[u].parameter_count; i++, places++)
                if (is_new(model, &model->units[u], &model->units[u].parameters[i], reading))
                    *places = CHECKPOINT_NEW;
}

bool checkpoint_has_task_head(hid_t file, const struct model *model)
{
    const struct unit *head = model_head(model);
    bool is = model->settings.task.head == DECK_HEAD_LM;
    char name[CHECKPOINT_DATASET_BYTES];
    for (int i = 0; i < head->parameter_count && !is; i++) {
        checkpoint_dataset_name(name, PIECE_WEIGHT, &head->parameters[i]);
        is = is_of_task_head(model, head, &head->parameters[i]) && hdf5_has(file, name);
    }
    return is;
}

static bool has_adapters(hid_t file, const struct model *model)
{
    char name[CHECKPOINT_DATASET_BYTES];
    for (int u = model->head + 1; u < model->unit_count; u++)
        for (int i = 0; i < model->units[u].parameter_count; i++) {
            checkpoint_dataset_name(name, PIECE_WEIGHT, &model->units[u].parameters[i]);
            if (hdf5_has(file, name))
                return true;
        }
    return false;
}

/* -- Tensors of the file ----------------------------------------------------------------------------------------- */

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Returns the sorted names of the model's parameters; freed with free(). */
static const char **known_names(const struct model *model, size_t *count)
{
    const char **known = memory_grow(NULL, (model_parameters(model) + 1) * (int64_t)sizeof *known);
    *count = 0;
    for (int u = 0; u < model->unit_count; u++)
        for (int i = 0; i < model->units[u].parameter_count; i++)
            known[(*count)++] = model->units[u].parameters[i].name;
    qsort(known, *count, sizeof *known, by_name);
    return known;
}

/* Adds a fault for each tensor of the file that the model does not have. new_head: but those of the file's head. */
static void check_members(hid_t file, const struct model *model, bool new_head, struct fault_list *faults)
{
    int64_t count;
    size_t known_count;
    const char **known = known_names(model, &known_count);
    hid_t group = hdf5_open_group(file, checkpoint_groups[PIECE_WEIGHT]);
    char **names = hdf5_list(group, &count);
    for (int64_t i = 0; i < count; i++)
        if (bsearch(&names[i], known, known_count, sizeof *known, by_name) == NULL &&
            !(new_head && is_of_lm_head(model->settings.family, names[i])))
            faults_add(faults, "/%s/%s: is not in the model", checkpoint_groups[PIECE_WEIGHT], names[i]);
    hdf5_strings_free(names, count);
    free(known);
    H5Gclose(group);
}

/* Checks a unit's tensors of one kind. */
static void check_unit(hid_t file, const struct model *model, const struct unit *unit, enum piece_kind kind,
                       const struct checkpoint_reading *reading, struct fault_list *faults)
{
    for (int i = 0; i < unit->parameter_count; i++) {
        const struct parameter *p = &unit->parameters[i];
        if (!piece_exists(unit, p, kind))
            continue;
        if (reading->new_head && is_of_task_head(model, unit, p))
            check_new(file, p, faults);
        else if (!is_new(model, unit, p, reading))
            check_dataset(file, kind, p, faults);
    }
}

/* Checks that the file's moments are not those of the other optimizer: of matrices of blocks AdamW has second moments,
 * Muon has none. A file in which some are missing is damaged; matrices that were frozen have neither moment. */
static int check_optimizer(hid_t file, const char *path, const struct model *model)
{
    int matrices = 0, others = 0;
    for (int u = 0; u < model->unit_count; u++)
        for (int i = 0; i < model->units[u].parameter_count && model->units[u].layer >= 0; i++) {
            const struct unit *unit = &model->units[u];
            const struct parameter *p = &unit->parameters[i];
            char first[CHECKPOINT_DATASET_BYTES], second[CHECKPOINT_DATASET_BYTES];
            checkpoint_dataset_name(first, PIECE_M, p);
            checkpoint_dataset_name(second, PIECE_V, p);
            if (p->storage != STORAGE_MATRIX || !piece_exists(unit, p, PIECE_M) || !hdf5_has(file, first))
                continue;
            matrices++;
            others += hdf5_has(file, second) != piece_exists(unit, p, PIECE_V);
        }
    return matrices == 0 || others < matrices
               ? ERROR_NONE
               : error_user("%s: has the moments of optimizer.kind = \"%s\", and this run has \"%s\"", path,
                            model->settings.muon ? "adamw" : "muon", model->settings.muon ? "muon" : "adamw");
}

int checkpoint_check_tensors(hid_t file, const char *path, const struct model *model,
                             const struct checkpoint_reading *reading)
{
    const int kinds = reading->kinds;
    struct fault_list faults = {0};
    if (!hdf5_has(file, "model"))
        return error_user("%s: has no group /model", path);
    if (kinds > PIECE_M && !hdf5_has(file, "optim"))
        return error_user(
            "%s: is a final model, without optimizer state: a run cannot resume from it; name a step_*.h5 file", path);
    /* without its group, every moment would be reported as missing */
    for (int kind = PIECE_M; kind < kinds; kind++)
        if (!hdf5_has(file, checkpoint_groups[kind]))
            return error_user("%s: has no group /%s", path, checkpoint_groups[kind]);
    if (kinds > PIECE_M && check_optimizer(file, path, model) != ERROR_NONE)
        return ERROR_USER;
    for (int kind = 0; kind < kinds; kind++)
        for (int u = 0; u < model->unit_count; u++)
            check_unit(file, model, &model->units[u], (enum piece_kind)kind, reading, &faults);
    check_members(file, model, reading->new_head, &faults);
    return faults_verdict(&faults, "%s: does not fit the model of this run", path);
}

/* -- Slabs by HDF5 ----------------------------------------------------------------------------------------------- */

static bool read_rectangle(hid_t dataset, hid_t space, hid_t type, const struct rectangle *r, bool vector, void *out)
{
    const hsize_t start[2] = {(hsize_t)r->row, (hsize_t)r->col}, count[2] = {(hsize_t)r->rows, (hsize_t)r->cols};
    const hsize_t elements = count[0] * count[1];
    hid_t memory = H5Screate_simple(1, &elements, NULL);
    bool good = H5Sselect_hyperslab(space, H5S_SELECT_SET, start + vector, NULL, count + vector, NULL) >= 0 &&
                H5Dread(dataset, type, memory, space, H5P_DEFAULT, out) >= 0;
    H5Sclose(memory);
    return good;
}

bool checkpoint_read_slab(hid_t dataset, hid_t type, const struct parameter *parameter, struct parameter_slab slab,
                          void *out)
{
    struct rectangle rectangles[SLAB_RECTANGLES];
    hid_t space = H5Dget_space(dataset);
    char *to = out;
    bool good = true;
    int count = slab_rectangles(parameter, slab, rectangles);
    for (int i = 0; i < count && good; i++) {
        good = read_rectangle(dataset, space, type, &rectangles[i], parameter->storage == STORAGE_VECTOR, to);
        to += rectangles[i].rows * rectangles[i].cols * (int64_t)H5Tget_size(type);
    }
    H5Sclose(space);
    return good;
}

int checkpoint_refuse_tensor(const char *path, const char *name)
{
    return error_user("%s: HDF5 cannot read /%s: it is damaged, or compressed by a filter that is not installed", path,
                      name);
}

/* Checks the file on rank 0 before all ranks read it, and finds the tensors' places in it. reading->new_adapters: if
 * the file has none. */
static int check_file(struct engine *engine, const char *path, struct checkpoint_reading reading, int64_t *places)
{
    const struct model *model = engine->model;
    hid_t file;
    int code = checkpoint_open(&file, path);
    if (code != ERROR_NONE)
        return code;
    reading.new_adapters = reading.new_adapters && model->head + 1 < model->unit_count && !has_adapters(file, model);
    if (reading.new_adapters && reading.kinds > PIECE_M)
        code = error_user("%s: has no adapters, and so no optimizer state of adapters", path);
    if (code == ERROR_NONE)
        code = checkpoint_check_tensors(file, path, model, &reading);
    if (code == ERROR_NONE) {
        checkpoint_find_places(file, model, reading.kinds, piece_dtype(engine), places);
        mark_new(model, &reading, places);
    }
    H5Fclose(file);
    return code;
}

/* Reads meta and tensors, and compares the blocks of `list`. */
static int read_all(struct comm *world, struct engine *engine, const char *path,
                    const struct checkpoint_reading *reading, const struct block_list *list, bool *damaged)
{
    const int kinds = reading->kinds;
    struct checkpoint_meta meta;
    int code = checkpoint_read_meta(world, path, &meta);
    if (code != ERROR_NONE)
        return code;
    const int64_t bytes = kinds * model_parameters(engine->model) * (int64_t)sizeof(int64_t);
    int64_t *places = memory_allocate(bytes);
    struct hdf5_silence silence;
    hdf5_silence_begin(&silence);
    code = comm_agree(world, world->rank == 0 ? check_file(engine, path, *reading, places) : ERROR_NONE);
    if (code == ERROR_NONE) {
        comm_broadcast(world, places, bytes, 0);
        code = checkpoint_read_tensors(world, engine, path, kinds, places, list, damaged);
    }
    memory_free(places);
    if (code == ERROR_NONE)
        engine_weights_written(engine);
    hdf5_silence_end(&silence);
    if (code == ERROR_NONE && kinds == PIECE_KINDS)
        engine_set_updates(engine, meta.updates);
    checkpoint_meta_destroy(&meta);
    return code;
}

static int kinds_with(bool optimizer)
{
    return optimizer ? PIECE_KINDS : PIECE_WEIGHT + 1;
}

int checkpoint_read(struct comm *world, struct engine *engine, const char *path, bool with_optimizer)
{
    const struct block_list none = {NULL, 0, 0};
    bool damaged;
    const struct checkpoint_reading reading = {.kinds = kinds_with(with_optimizer)};
    return read_all(world, engine, path, &reading, &none, &damaged);
}

int checkpoint_read_origin(struct comm *world, struct engine *engine, const char *path, bool with_optimizer,
                           bool new_head)
{
    const struct block_list none = {NULL, 0, 0};
    bool damaged;
    const struct checkpoint_reading reading = {kinds_with(with_optimizer), new_head, true};
    return read_all(world, engine, path, &reading, &none, &damaged);
}

int checkpoint_load(struct comm *world, struct engine *engine, const char *path, bool with_optimizer, bool *damaged)
{
    struct block_list list;
    *damaged = false;
    int code = comm_agree(world, checkpoint_share_blocks(world, path, &list));
    if (code == ERROR_NONE)
        code = read_all(world, engine, path, &(struct checkpoint_reading){.kinds = kinds_with(with_optimizer)}, &list,
                        damaged);
    block_list_destroy(&list);
    return code;
}

void checkpoint_dry_load(struct comm *world, const struct engine *engine, struct checkpoint_meta *meta, int64_t blocks)
{
    /* the hashes (twice), the meta, file and model; opening, reading, damage and the end */
    enum { AGREEMENTS = 8 };
    struct block_list list = {NULL, 0, 0};
    const int64_t bytes = kinds_with(true) * model_parameters(engine->model) * (int64_t)sizeof(int64_t);
    int64_t *places = memory_allocate(bytes), *numbers = memory_allocate(blocks * (int64_t)sizeof *numbers);
    for (int64_t i = 0; i < blocks && world->rank == 0; i++)
        block_list_add(&list, (struct hash_block){0});
    for (int i = 0; i < AGREEMENTS; i++)
        comm_max_i64(world, 0);
    checkpoint_send_blocks(world, &list);
    checkpoint_send_meta(world, meta);
    comm_broadcast(world, places, bytes, 0);
    checkpoint_draw_blocks(world, numbers, blocks);
    block_list_destroy(&list);
    memory_free(places);
    memory_free(numbers);
}
