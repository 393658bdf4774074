/* Keys of config.json and generation_config.json about tokens: end tokens, padding, rows of the embedding. */
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "bridge/config_source.h"
#include "tokenizer/end_tokens.h"

#include <stdlib.h>
#include <sys/stat.h>

int config_token_rows(int64_t *rows, const char *folder, int64_t vocabulary)
{
    static const char key[] = "padded_vocab_size";
    char *path = memory_format("%s/config.json", folder);
    json_t *root;
    int code = json_file_read(&root, path);
    const struct config_source source = {.path = path, .dialect = DIALECT_TE, .root = root};
    *rows = -1;
    if (code == ERROR_NONE && json_object_get(root, key) != NULL) {
        const json_t *value = config_value(root, key);
        *rows = vocabulary;
        if (value != NULL)
            code = config_read_size(&source, "", key, value, rows);
        if (code == ERROR_NONE && *rows < vocabulary)
            code = config_refuse(&source, "", key, value, "must be at least vocab_size");
    }
    json_decref(root);
    free(path);
    return code;
}

static int read_ends(struct end_tokens *ends, const char *path, int64_t vocabulary)
{
    json_t *root;
    int outside = 0, code = json_file_read(&root, path);
    if (code == ERROR_NONE)
        code = end_tokens_read(ends, root, path, vocabulary, &outside);
    if (code == ERROR_NONE && outside > 0)
        log_warn("%s: key eos_token_id: ids not below vocab_size = %lld are ignored: %d", path, (long long)vocabulary,
                 outside);
    json_decref(root);
    return code;
}

int config_ends(struct model_ends *ends, const char *folder, int64_t vocabulary)
{
    char *config = memory_format("%s/config.json", folder);
    char *generation = memory_format("%s/generation_config.json", folder);
    struct stat status;
    *ends = (struct model_ends){0};
    int code = read_ends(&ends->config, config, vocabulary);
    if (code == ERROR_NONE && stat(generation, &status) == 0)
        code = read_ends(&ends->generation, generation, vocabulary);
    free(config);
    free(generation);
    return code;
}

int64_t config_padding(const char *folder)
{
    char *path = memory_format("%s/config.json", folder);
    json_t *root;
    int64_t padding = -1;
    if (json_file_read(&root, path) == ERROR_NONE && json_is_integer(config_value(root, "pad_token_id")))
        padding = json_integer_value(config_value(root, "pad_token_id"));
    json_decref(root);
    free(path);
    return padding;
}
