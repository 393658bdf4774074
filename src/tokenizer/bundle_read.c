/* Reads the files of a tokenizer from a folder. */
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "file/open.h"
#include "tokenizer/bundle.h"
#include "tokenizer/vocabulary_files.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

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
    if (code == ERROR_NONE && kind <= BUNDLE_MODEL)
        kind = bundle_is_json(data, bytes) ? BUNDLE_JSON : BUNDLE_MODEL;
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
    return bundle->files[BUNDLE_JSON].data != NULL || bundle->files[BUNDLE_MODEL].data != NULL;
}

/* Returns whether a path names a file of a vocabulary, which its folder completes. */
static bool is_vocabulary(const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash != NULL ? slash + 1 : path;
    return strcmp(name, bundle_names[BUNDLE_VOCABULARY]) == 0 || strcmp(name, bundle_names[BUNDLE_MERGES]) == 0 ||
           strcmp(name, bundle_names[BUNDLE_WORDS]) == 0;
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
    if (code == ERROR_NONE && is_folder)
        code = take_from(bundle, BUNDLE_MODEL, folder);
    for (int kind = BUNDLE_CONFIG; kind < BUNDLE_KINDS && code == ERROR_NONE; kind++)
        code = take_from(bundle, (enum bundle_kind)kind, folder);
    if (code == ERROR_NONE && !has_tokenizer(bundle))
        code = vocabulary_files_complete(bundle, where);
    if (code == ERROR_NONE && !has_tokenizer(bundle))
        code = error_user("%s: contains neither %s nor %s, nor %s with %s, nor %s", where, bundle_names[BUNDLE_JSON],
                          bundle_names[BUNDLE_MODEL], bundle_names[BUNDLE_VOCABULARY], bundle_names[BUNDLE_MERGES],
                          bundle_names[BUNDLE_WORDS]);
    if (code == ERROR_NONE)
        warn_of_more(folder);
    free(folder);
    return code;
}
