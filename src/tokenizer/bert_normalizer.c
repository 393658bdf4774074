#include "tokenizer/bert_normalizer.h"
#include "base/memory.h"
#include "tokenizer/classes.h"
#include "tokenizer/utf8.h"

#include <stdlib.h>
#include <utf8proc.h>

enum { REPLACEMENT = 0xfffd, DOTTED_CAPITAL_I = 0x130, DOT_ABOVE = 0x307, MOST_PARTS = 32 };

static void put(struct bert_text *out, uint32_t code)
{
    if (out->used + UTF8_MOST > out->capacity) {
        out->capacity = 2 * (out->used + UTF8_MOST);
        out->text = memory_grow(out->text, out->capacity);
    }
    out->used += utf8_write(out->text + out->used, code);
}

static bool is_dropped(uint32_t code)
{
    const utf8proc_category_t category = utf8proc_category((utf8proc_int32_t)code);
    return code == 0 || code == REPLACEMENT ||
           (code != '\t' && code != '\n' && code != '\r' &&
            (category == UTF8PROC_CATEGORY_CC || category == UTF8PROC_CATEGORY_CF || category == UTF8PROC_CATEGORY_CO));
}

/* The blocks of CJK Unified Ideographs, and of compatibility ideographs. Source: BERT's tokenization.py. */
static bool is_chinese(uint32_t code)
{
    static const uint32_t blocks[][2] = {{0x4e00, 0x9fff},   {0x3400, 0x4dbf},   {0x20000, 0x2a6df},
                                         {0x2a700, 0x2b73f}, {0x2b740, 0x2b81f}, {0x2b920, 0x2ceaf},
                                         {0xf900, 0xfaff},   {0x2f800, 0x2fa1f}};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++)
        if (code >= blocks[i][0] && code <= blocks[i][1])
            return true;
    return false;
}

static void put_lower(const struct bert_normalizer *how, struct bert_text *out, uint32_t code)
{
    put(out, how->lower ? (uint32_t)utf8proc_tolower((utf8proc_int32_t)code) : code);
    if (how->lower && code == DOTTED_CAPITAL_I) /* the only character that becomes two */
        put(out, DOT_ABOVE);
}

static void put_character(const struct bert_normalizer *how, struct bert_text *out, uint32_t code)
{
    utf8proc_int32_t parts[MOST_PARTS];
    int last = 0;
    if (!how->strip) {
        put_lower(how, out, code);
        return;
    }
    const utf8proc_ssize_t count =
        utf8proc_decompose_char((utf8proc_int32_t)code, parts, MOST_PARTS, UTF8PROC_DECOMPOSE, &last);
    for (utf8proc_ssize_t i = 0; i < count; i++)
        if (utf8proc_category(parts[i]) != UTF8PROC_CATEGORY_MN)
            put_lower(how, out, (uint32_t)parts[i]);
}

const unsigned char *bert_normalize(const struct bert_normalizer *how, struct bert_text *out, const unsigned char *text,
                                    int64_t bytes, int64_t *normalized)
{
    const struct character_classes *classes = classes_get();
    out->used = 0;
    for (int64_t at = 0; at < bytes;) {
        int length;
        uint32_t code = utf8_read(text + at, &length);
        at += length;
        if (how->clean && is_dropped(code))
            continue;
        if (how->clean && (classes->of[code] & CLASS_SPACE) != 0)
            code = ' ';
        const bool apart = how->chinese && is_chinese(code);
        if (apart)
            put(out, ' ');
        put_character(how, out, code);
        if (apart)
            put(out, ' ');
    }
    *normalized = out->used;
    return out->text;
}

void bert_text_free(struct bert_text *text)
{
    free(text->text);
}
