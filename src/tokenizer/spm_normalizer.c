#include "tokenizer/spm_normalizer.h"
#include "tokenizer/utf8.h"

enum { BLANK_BYTES = sizeof SPM_BLANK - 1 };

/* Returns the length of the symbol, rule or character that begins the text, and what it becomes, *count bytes. */
static int64_t next_part(const struct spm_normalizer *how, const unsigned char *text, int64_t bytes,
                         const unsigned char **part, int64_t *count)
{
    int length;
    int32_t id;
    int64_t used = token_trie_longest(how->symbols, text, bytes, &id);
    if (used == 0) {
        used = charsmap_find(how->charsmap, text, bytes, part, count);
        if (used > 0)
            return used;
        utf8_read(text, &length);
        used = length;
    }
    *part = text;
    *count = used;
    return used;
}

static void put_blank(const struct spm_normalizer *how, struct text_buffer *out)
{
    text_buffer_add(out, how->escape ? SPM_BLANK : " ", how->escape ? BLANK_BYTES : 1);
}

/* Appends a part. */
static void put_part(const struct spm_normalizer *how, struct text_buffer *out, const unsigned char *part,
                     int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        if (part[i] == ' ')
            put_blank(how, out);
        else
            text_buffer_add(out, part + i, 1);
}

static bool ends_with_blank(const struct spm_normalizer *how, const struct text_buffer *out)
{
    const int64_t bytes = how->escape ? BLANK_BYTES : 1;
    return out->used >= bytes &&
           memcmp(out->text + out->used - bytes, how->escape ? SPM_BLANK : " ", (size_t)bytes) == 0;
}

void spm_normalize(const struct spm_normalizer *how, struct text_buffer *out, const unsigned char *text, int64_t bytes)
{
    const unsigned char *part;
    int64_t count, at = 0, used;
    for (; how->single && at < bytes; at += used) {
        used = next_part(how, text + at, bytes - at, &part, &count);
        if (count != 1 || *part != ' ')
            break;
    }
    if (at < bytes && how->prefix)
        put_blank(how, out);
    for (bool after_blank = how->single; at < bytes; at += used) {
        used = next_part(how, text + at, bytes - at, &part, &count);
        for (; after_blank && count > 0 && *part == ' '; part++)
            count--;
        put_part(how, out, part, count);
        if (count > 0)
            after_blank = how->single && part[count - 1] == ' ';
    }
    while (how->single && ends_with_blank(how, out))
        out->used -= how->escape ? BLANK_BYTES : 1;
}
