#include "infer/alphabet.h"
#include "base/error.h"
#include "base/memory.h"

#include <string.h>

enum { CHARACTERS = 1024 };

struct alphabet {
    const char *character[CHARACTERS];
    int64_t bytes[CHARACTERS];
    bool found[CHARACTERS]; /* an allowed token has the character */
    int count;
};

static int64_t character_bytes(const char *text)
{
    int64_t bytes = 1;
    while (((unsigned char)text[bytes] & 0xc0) == 0x80)
        bytes++;
    return bytes;
}

static int split(struct alphabet *a, const char *text)
{
    a->count = 0;
    for (const char *at = text; *at != '\0'; at += a->bytes[a->count++]) {
        if (a->count == CHARACTERS)
            return error_user("--alphabet: has more than %d characters", CHARACTERS);
        a->character[a->count] = at;
        a->bytes[a->count] = character_bytes(at);
        a->found[a->count] = false;
    }
    return a->count > 0 ? ERROR_NONE : error_user("--alphabet \"\": must name the characters that a text may have");
}

/* Returns the number of the character with which bytes[count] begin; -1: none of the alphabet. */
static int number_of(const struct alphabet *a, const char *bytes, int64_t count)
{
    for (int c = 0; c < a->count; c++)
        if (a->bytes[c] <= count && memcmp(bytes, a->character[c], (size_t)a->bytes[c]) == 0)
            return c;
    return -1;
}

static bool consists(const struct alphabet *a, const char *bytes, int64_t count)
{
    int64_t at = 0;
    for (int c; at < count && (c = number_of(a, bytes + at, count - at)) >= 0;)
        at += a->bytes[c];
    return count > 0 && at == count;
}

static void note_found(struct alphabet *a, const char *bytes, int64_t count)
{
    for (int64_t at = 0; at < count;) {
        const int c = number_of(a, bytes + at, count - at);
        a->found[c] = true;
        at += a->bytes[c];
    }
}

int alphabet_allow(const struct tokenizer *tokenizer, int64_t vocabulary, const char *alphabet, bool **allowed)
{
    struct alphabet *a = memory_allocate(sizeof *a);
    *allowed = memory_allocate((int64_t)sizeof **allowed * vocabulary);
    int code = split(a, alphabet);
    for (int32_t token = 0; code == ERROR_NONE && token < vocabulary; token++) {
        int64_t count;
        const char *bytes = tokenizer_decode(tokenizer, token, &count);
        (*allowed)[token] = consists(a, bytes, count);
        if ((*allowed)[token])
            note_found(a, bytes, count);
    }
    for (int c = 0; code == ERROR_NONE && c < a->count; c++)
        if (!a->found[c])
            code = error_user("--alphabet %s: the tokenizer, %s, has no token for '%.*s'", alphabet, tokenizer->name,
                              (int)a->bytes[c], a->character[c]);
    if (tokenizer->eos >= 0 && tokenizer->eos < vocabulary)
        (*allowed)[tokenizer->eos] = true;
    memory_free(a);
    return code;
}
