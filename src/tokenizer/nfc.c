#include "tokenizer/nfc.h"
#include "base/error.h"
#include "base/memory.h"
#include "tokenizer/utf8.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

enum {
    FIRST_LEAD =
        0xcc /* first byte of U+0300; characters below are normalized, and do not combine with preceding ones */
};

void nfc_free(struct nfc *nfc)
{
    free(nfc->text);
    free(nfc->codes);
}

static void add(struct nfc *nfc, const unsigned char *text, int64_t bytes)
{
    if (bytes == 0)
        return;
    if (nfc->used + bytes > nfc->capacity) {
        nfc->capacity = 2 * (nfc->used + bytes);
        nfc->text = memory_grow(nfc->text, nfc->capacity);
    }
    memcpy(nfc->text + nfc->used, text, (size_t)bytes);
    nfc->used += bytes;
}

static int combining_class(int32_t code)
{
    return utf8proc_get_property(code)->combining_class;
}

/* Sorts a run of marks by combining class, stably (Unicode's canonical ordering). A counting sort, so that long runs
 * take linear time. */
static void sort_marks(int32_t *codes, int64_t count)
{
    int64_t places[257] = {0};
    int32_t *sorted = memory_grow(NULL, count * (int64_t)sizeof *sorted);
    for (int64_t i = 0; i < count; i++)
        places[combining_class(codes[i]) + 1]++;
    for (int i = 1; i < 257; i++)
        places[i] += places[i - 1];
    for (int64_t i = 0; i < count; i++)
        sorted[places[combining_class(codes[i])]++] = codes[i];
    memcpy(codes, sorted, (size_t)count * sizeof *codes);
    free(sorted);
}

static void order_marks(int32_t *codes, int64_t count)
{
    for (int64_t begin = 0, end; begin < count; begin = end) {
        bool sorted = true;
        end = begin + 1;
        if (combining_class(codes[begin]) == 0)
            continue;
        for (; end < count && combining_class(codes[end]) > 0; end++)
            sorted = sorted && combining_class(codes[end - 1]) <= combining_class(codes[end]);
        if (!sorted)
            sort_marks(codes + begin, end - begin);
    }
}

/* Decomposes a text into nfc->codes; returns the number of code points. */
static int64_t decompose(struct nfc *nfc, const unsigned char *text, int64_t bytes)
{
    enum { MOST = 4 /* limit of the canonical decomposition of a code point */ };
    int64_t count = 0;
    if (nfc->codes_capacity < bytes * MOST) {
        nfc->codes_capacity = bytes * MOST;
        nfc->codes = memory_grow(nfc->codes, nfc->codes_capacity * (int64_t)sizeof *nfc->codes);
    }
    for (int64_t at = 0; at < bytes;) {
        int length;
        int32_t code = (int32_t)utf8_read(text + at, &length);
        utf8proc_ssize_t made = utf8proc_decompose_char(code, nfc->codes + count, nfc->codes_capacity - count,
                                                        UTF8PROC_DECOMPOSE | UTF8PROC_STABLE, NULL);
        if (made < 0 || made > nfc->codes_capacity - count)
            error_fatal("utf8proc cannot decompose U+%04X", (unsigned)code);
        count += made;
        at += length;
    }
    return count;
}

static void add_normalized(struct nfc *nfc, const unsigned char *text, int64_t bytes)
{
    int64_t count = decompose(nfc, text, bytes);
    order_marks(nfc->codes, count);
    count = utf8proc_normalize_utf32(nfc->codes, count, UTF8PROC_COMPOSE | UTF8PROC_STABLE);
    for (int64_t i = 0; i < count; i++) {
        unsigned char character[UTF8_MOST];
        add(nfc, character, utf8_write(character, (uint32_t)nfc->codes[i]));
    }
}

const unsigned char *nfc_normalize(struct nfc *nfc, const unsigned char *text, int64_t bytes, int64_t *normalized)
{
    int64_t kept = 0, character = 0, at = 0; /* text before `kept` is done; the last character begins at `character` */
    nfc->used = 0;
    while (at < bytes) {
        int length;
        if (text[at] < FIRST_LEAD) {
            character = at;
            at += text[at] < 0x80 ? 1 : 2;
            continue;
        }
        /* include the previous character, which may combine, up to the next one that cannot combine */
        int64_t begin = character;
        for (; at < bytes && text[at] >= FIRST_LEAD; at += length)
            utf8_read(text + at, &length);
        add(nfc, text + kept, begin - kept);
        add_normalized(nfc, text + begin, at - begin);
        kept = at;
    }
    *normalized = bytes;
    if (kept == 0)
        return text;
    add(nfc, text + kept, bytes - kept);
    *normalized = nfc->used;
    return nfc->text;
}
