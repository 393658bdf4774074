#include "tokenizer/bundle.h"
#include "base/memory.h"

#include <string.h>

const char *const bundle_names[BUNDLE_KINDS] = {[BUNDLE_JSON] = "tokenizer.json",
                                                [BUNDLE_MODEL] = "tokenizer.model",
                                                [BUNDLE_CONFIG] = "tokenizer_config.json",
                                                [BUNDLE_SPECIALS] = "special_tokens_map.json",
                                                [BUNDLE_GENERATION] = "generation_config.json",
                                                [BUNDLE_ADDED] = "added_tokens.json",
                                                [BUNDLE_CHAT] = "chat_template.jinja",
                                                [BUNDLE_CHAT_JSON] = "chat_template.json",
                                                [BUNDLE_VOCABULARY] = "vocab.json",
                                                [BUNDLE_MERGES] = "merges.txt",
                                                [BUNDLE_WORDS] = "vocab.txt"};

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
