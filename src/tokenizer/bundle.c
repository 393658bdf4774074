#include "tokenizer/bundle.h"
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "file/open.h"
#include "tokenizer/vocabulary_files.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

const char *const bundle_names[BUNDLE_KINDS] = {[BUNDLE_JSON] = "tokenizer.json",
                                                [BUNDLE_RANKS] = "tokenizer.model",
                                                [BUNDLE_CONFIG] = "tokenizer_config.json",
                                                [BUNDLE_SPECIALS] = "special_tokens_map.json",
                                                [BUNDLE_GENERATION] = "generation_config.json",
                                                [BUNDLE_ADDED] = "added_tokens.json",
                                                [BUNDLE_CHAT] = "chat_template.jinja",
                                                [BUNDLE_CHAT_JSON] = "chat_template.json",
                                                [BUNDLE_VOCABULARY] = "vocab.json",
                                                [BUNDLE_MERGES] = "merges.txt"};

void bundle_put(struct tokenizer_bundle *bundle, enum bundle_kind kind, const void *data, int64_t bytes)
{
    memory_free(bundle->files[kind].data);
    bundle->files[kind].data = memory_allocate(bytes);
    bundle->files[kind].bytes = bytes;
    memcpy(bundle->files[kind].data, data, (size_t)bytes);
}

void bundle_complete(struct tokenizer_bundle *bundle, const struct tokenizer_bundle *from)
{
    for (int kind = 0; kind < BUNDLE_KINDS; kind++)
        if (bundle->files[kind].data == NULL && from->files[kind].data != NULL)
            bundle_put(bundle, (enum bundle_kind)kind, from->files[kind].data, from->files[kind].bytes);
}

struct tokenizer_bundle bundle_copy(const struct tokenizer_bundle *bundle)
{
    struct tokenizer_bundle copy = {0};
    bundle_complete(&copy, bundle);
    return copy;
}

void bundle_destroy(struct tokenizer_bundle *bundle)
{
    for (int kind = 0; kind < BUNDLE_KINDS; kind++)
        memory_free(bundle->files[kind].data);
    *bundle = (struct tokenizer_bundle){0};
}

int64_t bundle_bytes(const struct tokenizer_bundle *bundle)
{
    int64_t bytes = 0;
    for (int kind = 0; kind < BUNDLE_KINDS; kind++)
        bytes += bundle->files[kind].bytes;
    return bytes;
}

bool bundle_is_json(const void *data, int64_t bytes)
{
    const char *at = data, *end = at + bytes;
    while (at < end && memchr(" \t\r\n", *at, 4) != NULL)
        at++;
    return at < end && *at == '{';
}

/* Reads a whole file. The tokenizer file's kind is determined by its content. */
static int take(struct tokenizer_bundle *bundle, enum bundle_kind kind, const char *path)
{
    FILE *file = open_stream(path);
    if (file == NULL)
        return error_user("%s: cannot be read: %s", path, open_failure());
    const int64_t bytes = open_size(fileno(file));
    if (bytes == 0 && kind >= BUNDLE_SPECIALS) {
        log_warn("%s: is empty and is not kept", path);
        fclose(file);
        return ERROR_NONE;
    }
    int code = bytes > 0 && bytes <= BUNDLE_BYTES ? ERROR_NONE
                                                  : error_user("%s: has %lld bytes; a tokenizer's file has 1 to %d",
                                                               path, (long long)bytes, BUNDLE_BYTES);
    char *data = code == ERROR_NONE ? memory_allocate(bytes) : NULL;
    if (code == ERROR_NONE && fread(data, 1, (size_t)bytes, file) != (size_t)bytes)
        code = error_environment("%s: cannot be read: %s", path, strerror(errno));
    if (code == ERROR_NONE && kind <= BUNDLE_RANKS)
        kind = bundle_is_json(data, bytes) ? BUNDLE_JSON : BUNDLE_RANKS;
    if (code == ERROR_NONE)
        bundle_put(bundle, kind, data, bytes);
    memory_free(data);
    fclose(file);
    return code;
}

static bool is_there(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0;
}

/* Reads one of the folder's files, if it is there. */
static int take_from(struct tokenizer_bundle *bundle, enum bundle_kind kind, const char *folder)
{
    char *path = memory_format("%s/%s", folder, bundle_names[kind]);
    int code = is_there(path) ? take(bundle, kind, path) : ERROR_NONE;
    free(path);
    return code;
}

/* Warns of the folder in which transformers stores named chat templates. */
static void warn_of_more(const char *folder)
{
    char *path = memory_format("%s/additional_chat_templates", folder);
    if (is_there(path))
        log_warn("%s: is not kept: of chat templates only %s is", path, bundle_names[BUNDLE_CHAT]);
    free(path);
}

static bool has_tokenizer(const struct tokenizer_bundle *bundle)
{
    return bundle->files[BUNDLE_JSON].data != NULL || bundle->files[BUNDLE_RANKS].data != NULL;
}

/* Returns whether a path names a file of a vocabulary, which its folder completes. */
static bool is_vocabulary(const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash != NULL ? slash + 1 : path;
    return strcmp(name, bundle_names[BUNDLE_VOCABULARY]) == 0 || strcmp(name, bundle_names[BUNDLE_MERGES]) == 0;
}

int bundle_read(struct tokenizer_bundle *bundle, const char *where)
{
    struct stat status;
    *bundle = (struct tokenizer_bundle){0};
    if (stat(where, &status) != 0)
        return error_user("%s: %s", where, strerror(errno));
    const bool is_folder = S_ISDIR(status.st_mode);
    const char *slash = strrchr(where, '/');
    char *folder = is_folder       ? memory_string(where)
                   : slash == NULL ? memory_string(".")
                                   : memory_format("%.*s", (int)(slash - where), where);
    int code = ERROR_NONE;
    if (is_folder)
        code = take_from(bundle, BUNDLE_JSON, folder);
    else if (!is_vocabulary(where))
        code = take(bundle, BUNDLE_JSON, where);
    if (code == ERROR_NONE && is_folder && !has_tokenizer(bundle))
        code = take_from(bundle, BUNDLE_RANKS, folder);
    for (int kind = BUNDLE_CONFIG; kind < BUNDLE_KINDS && code == ERROR_NONE; kind++)
        code = take_from(bundle, (enum bundle_kind)kind, folder);
    if (code == ERROR_NONE && !has_tokenizer(bundle))
        code = vocabulary_files_complete(bundle, where);
    if (code == ERROR_NONE && !has_tokenizer(bundle))
        code = error_user("%s: contains neither %s nor %s, nor %s with %s", where, bundle_names[BUNDLE_JSON],
                          bundle_names[BUNDLE_RANKS], bundle_names[BUNDLE_VOCABULARY], bundle_names[BUNDLE_MERGES]);
    if (code == ERROR_NONE)
        warn_of_more(folder);
    free(folder);
    return code;
}
