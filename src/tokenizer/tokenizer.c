#include "tokenizer/tokenizer.h"
#include "base/error.h"

#include <stddef.h>

int tokenizer_open(const struct tokenizer **tokenizer, const char *where)
{
    *tokenizer = tokenizer_find(where);
    if (*tokenizer == NULL)
        return error_user("--tokenizer %s: unknown; there is: %s", where, tokenizer_names());
    return ERROR_NONE;
}

void tokenizer_close(const struct tokenizer *tokenizer)
{
    (void)tokenizer;
}

int64_t tokenizer_encode(const struct tokenizer *tokenizer, const char *text, int64_t bytes, int32_t *ids)
{
    enum { PART = 1024 };
    uint8_t part[PART];
    for (int64_t at = 0; at < bytes; at += PART) {
        const int64_t count = bytes - at < PART ? bytes - at : PART;
        tokenizer->encode_characters(text + at, count, part);
        for (int64_t i = 0; i < count; i++)
            ids[at + i] = part[i];
    }
    return bytes;
}
