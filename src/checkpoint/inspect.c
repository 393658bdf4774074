#include "checkpoint/inspect.h"
#include "base/error.h"
#include "base/memory.h"
#include "file/path.h"
#include "base/text.h"
#include "base/thousands.h"
#include "data/megatron_store.h"
#include "data/token_store.h"
#include "file/block.h"
#include "checkpoint/checkpoint_private.h"
#include "file/jsontext.h"
#include "setup/model.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LISTED_SEQUENCES = 10 };

/* -- Description as a JSON object -------------------------------------------------------------------------------- */

static void put_text(json_t *object, const char *key, const char *text)
{
    json_object_set_new(object, key, jsontext_create(text, (int64_t)strlen(text)));
}

static void put_integer(json_t *object, const char *key, int64_t value)
{
    json_object_set_new(object, key, json_integer(value));
}

/* Adds a checksum in hexadecimal, because many JSON readers lose bits of 64-bit numbers. */
static void put_checksum(json_t *object, const char *key, uint64_t checksum)
{
    char text[17];
    snprintf(text, sizeof text, "%016" PRIx64, checksum);
    put_text(object, key, text);
}

static json_t *put_array(json_t *object, const char *key)
{
    json_t *array = json_array();
    json_object_set_new(object, key, array);
    return array;
}

static json_t *append_object(json_t *array)
{
    json_t *object = json_object();
    json_array_append_new(array, object);
    return object;
}

static void describe_tokenizer(json_t *out, hid_t file)
{
    hid_t group = hdf5_has(file, "tokenizer") ? hdf5_open_group(file, "tokenizer") : -1;
    if (group < 0)
        return;
    json_t *files = put_array(out, "tokenizer_files");
    for (int kind = 0; kind < BUNDLE_KINDS; kind++) {
        hid_t dataset = hdf5_has(group, bundle_names[kind]) ? hdf5_open_dataset(group, bundle_names[kind]) : -1;
        if (dataset < 0)
            continue;
        json_t *entry = append_object(files);
        put_text(entry, "name", bundle_names[kind]);
        put_integer(entry, "bytes", hdf5_count_bytes(dataset));
        H5Dclose(dataset);
    }
    H5Gclose(group);
}

/* -- Token stores ------------------------------------------------------------------------------------------------ */

static void describe_sources(json_t *out, hid_t file)
{
    int64_t count = -1;
    json_t *list = put_array(out, "sources");
    hid_t dataset = hdf5_open_dataset(file, "sources");
    char **sources = dataset < 0 ? NULL : hdf5_read_strings(dataset, &count);
    for (int64_t i = 0; i < count; i++)
        json_array_append_new(list, jsontext_create(sources[i], (int64_t)strlen(sources[i])));
    hdf5_strings_free(sources, count);
    if (dataset >= 0)
        H5Dclose(dataset);
}

static int describe_store(json_t *out, hid_t file, const char *path, bool verify)
{
    struct token_store *store;
    int code = token_store_open(&store, path);
    if (code == ERROR_NONE)
        code = verify ? token_store_verify(store) : token_store_check_offsets(store);
    if (code != ERROR_NONE) {
        token_store_close(store);
        return code;
    }
    put_text(out, "kind", "token store");
    put_text(out, "tokenizer", store->tokenizer->name);
    put_integer(out, "vocabulary", store->vocabulary);
    put_integer(out, "sequences", store->sequences);
    put_integer(out, "tokens", store->token_count);
    put_integer(out, "token_bytes", store->token_bytes);
    put_checksum(out, "checksum", store->checksum);
    describe_tokenizer(out, file);
    describe_sources(out, file);
    json_t *first = put_array(out, "first_sequences");
    int64_t cursor = 0, length;
    const char *name;
    for (int64_t i = 0; i < LISTED_SEQUENCES && i < store->sequences &&
                        (name = token_store_next_name(store, &cursor, &length)) != NULL;
         i++) {
        json_t *sequence = append_object(first);
        json_object_set_new(sequence, "name", jsontext_create(name, length));
        put_integer(sequence, "tokens", token_store_offset(store, i + 1) - token_store_offset(store, i));
    }
    token_store_close(store);
    return ERROR_NONE;
}

static int describe_megatron(json_t *out, const char *path)
{
    static const char *const types[] = {[MEGATRON_U8] = "u8",   [MEGATRON_I8] = "i8",   [MEGATRON_I16] = "i16",
                                        [MEGATRON_I32] = "i32", [MEGATRON_I64] = "i64", [MEGATRON_U16] = "u16"};
    struct megatron_store *store;
    int code = megatron_store_open(&store, path);
    if (code != ERROR_NONE)
        return code;
    put_text(out, "path", store->prefix);
    put_text(out, "kind", "Megatron data set");
    put_text(out, "type", types[store->type]);
    put_integer(out, "documents", store->documents);
    put_integer(out, "sequences", store->sequences);
    put_integer(out, "tokens", store->token_count);
    put_checksum(out, "checksum", store->checksum);
    megatron_store_close(store);
    return ERROR_NONE;
}

/* -- Checkpoints ------------------------------------------------------------------------------------------------- */

/* Adds the family of the training's deck, unless the deck is of a version that this one cannot read. */
static void describe_family(json_t *out, const struct checkpoint_meta *meta, const char *path)
{
    struct deck *deck = deck_create();
    struct model_settings settings;
    if (deck_read_text(deck, meta->deck_text, path, NULL, 0) == ERROR_NONE &&
        model_settings_from_deck(&settings, deck, meta->vocabulary) == ERROR_NONE)
        put_text(out, "family", settings.family->name);
    error_clear();
    memory_free(deck);
}

static void describe_meta(json_t *out, const struct checkpoint_meta *meta)
{
    put_integer(out, "step", meta->step);
    put_integer(out, "updates", meta->updates);
    put_integer(out, "tokens", meta->tokens);
    put_integer(out, "seed", meta->seed);
    put_text(out, "version", meta->version);
    put_integer(out, "ranks", meta->ranks);
    put_text(out, "tokenizer", meta->tokenizer);
    put_integer(out, "vocabulary", meta->vocabulary);
    put_integer(out, "validation_step", meta->validation_step);
    put_integer(out, "best_step", meta->best_step);
    json_object_set_new(out, "best_loss", meta->best_step > 0 ? json_real(meta->best_loss) : json_null());
    put_checksum(out, "store_checksum", meta->store);
    put_integer(out, "offset", meta->position.offset);
    json_t *stores = put_array(out, "stores");
    for (int64_t d = 0; d < meta->position.stores; d++) {
        json_t *store = append_object(stores);
        put_integer(store, "epoch", meta->position.epoch[d]);
        put_integer(store, "window", meta->position.window[d]);
    }
}

static void describe_tensor(json_t *tensors, hid_t dataset, const char *name)
{
    hsize_t dims[H5S_MAX_RANK];
    hid_t space = H5Dget_space(dataset);
    int ndims = H5Sget_simple_extent_dims(space, dims, NULL);
    H5Sclose(space);
    json_t *tensor = append_object(tensors);
    put_text(tensor, "type", hdf5_type_name(dataset));
    put_text(tensor, "name", name);
    json_t *shape = put_array(tensor, "shape");
    for (int i = 0; i < ndims; i++)
        json_array_append_new(shape, json_integer((json_int_t)dims[i]));
}

/* Adds a member that this program does not open (file/hdf5_member.h), unless it is a group. */
static void describe_foreign(json_t *tensors, hid_t group, const char *name)
{
    hid_t inner = hdf5_open_group(group, name);
    if (inner >= 0) {
        H5Gclose(inner);
        return;
    }
    json_t *tensor = append_object(tensors);
    put_text(tensor, "type", hdf5_foreign);
    put_text(tensor, "name", name);
}

/* Adds the totals of group /<path>, and its datasets to `tensors` unless that is NULL. */
static void describe_group(json_t *groups, json_t *tensors, hid_t file, const char *path)
{
    int64_t count, datasets = 0, elements = 0;
    hid_t group = hdf5_open_group(file, path);
    if (group < 0)
        return;
    char **names = hdf5_list(group, &count);
    for (int64_t i = 0; i < count; i++) {
        hid_t dataset = hdf5_open_dataset(group, names[i]);
        if (dataset < 0) {
            if (tensors != NULL)
                describe_foreign(tensors, group, names[i]);
            continue;
        }
        hid_t space = H5Dget_space(dataset);
        int64_t points = (int64_t)H5Sget_simple_extent_npoints(space); /* counts of more than 63 bits are ignored */
        elements += points > 0 && points <= INT64_MAX - elements ? points : 0;
        datasets++;
        H5Sclose(space);
        if (tensors != NULL)
            describe_tensor(tensors, dataset, names[i]);
        H5Dclose(dataset);
    }
    hdf5_strings_free(names, count);
    H5Gclose(group);
    json_t *total = append_object(groups);
    put_text(total, "group", path);
    put_integer(total, "tensors", datasets);
    put_integer(total, "elements", elements);
}

static int describe_checkpoint(json_t *out, hid_t file, const char *path)
{
    struct checkpoint_meta meta;
    int code = checkpoint_load_meta(path, &meta);
    if (code != ERROR_NONE)
        return code;
    put_text(out, "kind", meta.moments ? "checkpoint" : "model");
    describe_family(out, &meta, path);
    describe_meta(out, &meta);
    describe_tokenizer(out, file);
    json_t *groups = put_array(out, "groups"), *tensors = put_array(out, "tensors");
    for (int kind = 0; kind < (meta.moments ? PIECE_KINDS : PIECE_M); kind++) /* moments have the same shapes */
        describe_group(groups, kind == PIECE_WEIGHT ? tensors : NULL, file, checkpoint_groups[kind]);
    describe_group(groups, NULL, file, "state/precision");
    if (hdf5_has(file, "state/choices"))
        describe_group(groups, NULL, file, "state"); /* the elements of state and carried are bytes */
    describe_group(groups, NULL, file, "carried");
    put_text(out, "deck", meta.deck_text);
    checkpoint_meta_destroy(&meta);
    return ERROR_NONE;
}

/* -- Embeddings and scores ---------------------------------------------------------------------------------------- */

/* Describes the attributes and datasets that the file has. kind: "embeddings" or "scores". */
static void describe_results(json_t *out, hid_t file, const char *kind)
{
    static const char *const texts[] = {"checkpoint", "family", "tokenizer", "pool", "method", "version"};
    static const char *const integers[] = {"step",       "hidden",     "context",  "begin_tokens",
                                           "end_tokens", "max_length", "truncated"};
    static const char *const datasets[] = {"names",   "mutations",         "methods", "scores",    "measured",
                                           "lengths", "vectors",           "offsets", "wild_type", "tokens",
                                           "logits",  "log_probabilities", "contacts"};
    put_text(out, "kind", kind);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        char *text = hdf5_read_text(file, texts[i]);
        if (text != NULL)
            put_text(out, texts[i], text);
        free(text);
    }
    for (size_t i = 0; i < sizeof integers / sizeof *integers; i++) {
        int64_t value;
        if (hdf5_read_integer(file, integers[i], &value))
            put_integer(out, integers[i], value);
    }
    json_t *tensors = put_array(out, "tensors");
    for (size_t i = 0; i < sizeof datasets / sizeof *datasets; i++) {
        hid_t dataset = hdf5_open_dataset(file, datasets[i]);
        if (dataset >= 0) {
            describe_tensor(tensors, dataset, datasets[i]);
            H5Dclose(dataset);
        }
    }
}

/* -- Text -------------------------------------------------------------------------------------------------------- */

/* Prints a value on one line: strings without quotes, members of an object after their keys. */
static void print_value(const json_t *value)
{
    const char *key;
    json_t *member;
    size_t i;
    if (json_is_object(value)) {
        json_object_foreach((json_t *)value, key, member)
        {
            if (json_is_integer(member))
                printf(" %s", key);
            printf(" ");
            print_value(member);
        }
    } else if (json_is_array(value)) {
        printf("[");
        json_array_foreach(value, i, member)
        {
            printf(i == 0 ? "" : ", ");
            print_value(member);
        }
        printf("]");
    } else if (json_is_string(value)) {
        text_print(stdout, json_string_value(value));
    } else if (json_is_real(value)) {
        printf("%.6g", json_real_value(value));
    } else {
        char *dumped = json_dumps(value, JSON_ENCODE_ANY);
        printf("%s", dumped);
        free(dumped);
    }
}

static void print_lines(const char *text)
{
    while (*text != '\0') {
        int length = (int)strcspn(text, "\n");
        char *line = memory_format("    %.*s\n", length, text);
        text_print(stdout, line);
        free(line);
        text += length;
        text += *text == '\n';
    }
}

/* Returns "1,234 NAME" for an integer of the description; freed with free(). */
static char *counted(const json_t *object, const char *key, const char *name)
{
    char *count = thousands_text(json_integer_value(json_object_get(object, key)));
    char *text = memory_format("%s %s", count, name);
    free(count);
    return text;
}

/* Returns a string of the description, "" if it does not have it. */
static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text != NULL ? text : "";
}

static char *summarise_store(const json_t *out)
{
    char *tokens = counted(out, "tokens", "tokens"), *sequences = counted(out, "sequences", "sequences");
    const size_t sources = json_array_size(json_object_get(out, "sources"));
    char *text = memory_format("  %s (%s) in %s, from %zu file%s\n", tokens, text_of(out, "tokenizer"), sequences,
                               sources, plural((int64_t)sources));
    free(tokens);
    free(sequences);
    return text;
}

static char *summarise_loss(const json_t *out)
{
    const json_t *loss = json_object_get(out, "best_loss");
    if (!json_is_real(loss))
        return memory_string("");
    return memory_format("  best validation loss %.6f nats per label (perplexity %.4g), at step %lld\n",
                         json_real_value(loss), exp(json_real_value(loss)),
                         (long long)json_integer_value(json_object_get(out, "best_step")));
}

static char *summarise_checkpoint(const json_t *out)
{
    const json_t *model = json_array_get(json_object_get(out, "groups"), 0);
    const char *family = text_of(out, "family"), *tokenizer = text_of(out, "tokenizer");
    const char *use = strcmp(text_of(out, "kind"), "model") == 0
                          ? "weights alone: for eval, embed, generate, export and model.initialise_from"
                          : "weights and moments: a run can resume from it (cistron train --from)";
    char *parameters = counted(model, "elements", "parameters"), *tokens = counted(out, "tokens", "tokens");
    char *step = counted(out, "step", "steps"), *loss = summarise_loss(out);
    char *text =
        memory_format("  %s%sof %s%s%s, after %s and %s\n%s  %s\n", family, family[0] != '\0' ? " " : "", parameters,
                      tokenizer[0] != '\0' ? " on tokens of " : "", tokenizer, step, tokens, loss, use);
    free(parameters);
    free(tokens);
    free(step);
    free(loss);
    return text;
}

static char *summarise_embeddings(const json_t *out)
{
    char *hidden = counted(out, "hidden", "numbers");
    char *text =
        memory_format("  vectors of %s, pool %s, by %s\n", hidden, text_of(out, "pool"), text_of(out, "checkpoint"));
    free(hidden);
    return text;
}

static char *summarise_scores(const json_t *out)
{
    return memory_format("  method %s, by %s\n", text_of(out, "method"), text_of(out, "checkpoint"));
}

static char *summarise_megatron(const json_t *out)
{
    char *tokens = counted(out, "tokens", "tokens"), *documents = counted(out, "documents", "documents");
    char *text = memory_format("  %s in %s\n", tokens, documents);
    free(tokens);
    free(documents);
    return text;
}

/* Returns a summary of one or a few lines; freed with free(). */
static char *summarise(const json_t *out)
{
    const char *kind = text_of(out, "kind");
    if (strcmp(kind, "token store") == 0)
        return summarise_store(out);
    if (strcmp(kind, "Megatron data set") == 0)
        return summarise_megatron(out);
    if (strcmp(kind, "scores") == 0)
        return summarise_scores(out);
    return strcmp(kind, "embeddings") == 0 ? summarise_embeddings(out) : summarise_checkpoint(out);
}

static void print_text(json_t *out)
{
    const char *key;
    json_t *value, *member;
    size_t i;
    text_print(stdout, json_string_value(json_object_get(out, "path")));
    printf(": %s\n", text_of(out, "kind"));
    char *summary = summarise(out);
    text_print(stdout, summary);
    free(summary);
    printf("\n");
    json_object_foreach(out, key, value)
    {
        if (strcmp(key, "path") == 0 || strcmp(key, "kind") == 0)
            continue;
        printf("  %s", key);
        if (json_is_array(value)) {
            printf("\n");
            json_array_foreach(value, i, member)
            {
                printf(json_is_object(member) ? "   " : "    ");
                print_value(member);
                printf("\n");
            }
        } else if (json_is_string(value) && strchr(json_string_value(value), '\n') != NULL) {
            printf("\n");
            print_lines(json_string_value(value));
        } else {
            printf("%*s", (int)(18 - strlen(key)), " ");
            print_value(value);
            printf("\n");
        }
    }
}

static bool is_megatron(const char *path)
{
    char *prefix = megatron_prefix(path);
    free(prefix);
    return prefix != NULL;
}

/* -- Files ------------------------------------------------------------------------------------------------------- */

static int describe(json_t *out, const char *path, bool verify)
{
    if (is_megatron(path))
        return describe_megatron(out, path);
    struct hdf5_silence silence;
    hid_t file;
    hdf5_silence_begin(&silence);
    int code = hdf5_open(&file, path);
    if (code == ERROR_NONE) {
        put_text(out, "path", path);
        if (H5Aexists(file, "cistron_checkpoint") > 0)
            code = describe_checkpoint(out, file, path);
        else if (H5Aexists(file, "cistron_store") > 0)
            code = describe_store(out, file, path, verify);
        else if (H5Aexists(file, "cistron_embeddings") > 0)
            describe_results(out, file, "embeddings");
        else if (H5Aexists(file, "cistron_scores") > 0)
            describe_results(out, file, "scores");
        else
            code = error_user("%s: is an HDF5 file, but not a token store, a checkpoint, embeddings or scores of this "
                              "program",
                              path);
        H5Fclose(file);
    }
    hdf5_silence_end(&silence);
    return code;
}

/* Opens a file that has a side file with HDF5 only after its hashes were compared. */
static int inspect_file(const char *path, bool json, bool verify)
{
    char *side = block_side_path(path);
    int code = ERROR_NONE;
    if (access(side, F_OK) == 0) {
        struct comm *self = comm_self();
        code = checkpoint_examine(self, path, true);
        comm_destroy(self);
    }
    free(side);
    if (code != ERROR_NONE)
        return code;
    json_t *out = json_object();
    code = describe(out, path, verify);
    if (code == ERROR_NONE && json) {
        json_dumpf(out, stdout, JSON_INDENT(2));
        printf("\n");
    } else if (code == ERROR_NONE) {
        print_text(out);
    }
    json_decref(out);
    return code;
}

int inspect_run(const char *path, bool json, bool verify)
{
    struct stat status;
    if (is_megatron(path))
        return inspect_file(path, json, verify);
    if (stat(path, &status) != 0)
        return error_user("%s: cannot open it: %s", path, path_failure(path, errno));
    if (!S_ISDIR(status.st_mode))
        return inspect_file(path, json, verify);
    char *newest;
    int code = checkpoint_newest(path, &newest);
    if (code == ERROR_NONE && newest == NULL)
        code = checkpoint_none("", path, "");
    if (code == ERROR_NONE)
        code = inspect_file(newest, json, verify);
    free(newest);
    return code;
}
