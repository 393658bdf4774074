#include "tokenizer/added.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/range.h"
#include "tokenizer/classes.h"
#include "tokenizer/utf8.h"

#include <stdlib.h>
#include <string.h>

struct added {
    struct added_token *tokens; /* [count], sorted by their bytes */
    int64_t count;
    int64_t first[257];     /* tokens that begin with byte b are first[b] .. first[b + 1] - 1 */
    bool begins[256 * 256]; /* a token begins with these two bytes, or is the first byte */
};

static int compare(const void *a, const void *b)
{
    const struct added_token *one = a, *other = b;
    int64_t bytes = MIN(one->bytes, other->bytes);
    int order = memcmp(one->text, other->text, (size_t)bytes);
    return order != 0 ? order : (one->bytes > other->bytes) - (one->bytes < other->bytes);
}

struct added *added_open(struct added_token *tokens, int64_t count)
{
    if (count == 0)
        return NULL;
    struct added *added = memory_allocate(sizeof *added);
    added->tokens = memory_grow(NULL, count * (int64_t)sizeof *tokens);
    added->count = count;
    memcpy(added->tokens, tokens, (size_t)count * sizeof *tokens);
    qsort(added->tokens, (size_t)count, sizeof *tokens, compare);
    for (int64_t i = 0; i < count; i++) {
        const struct added_token *token = &added->tokens[i];
        unsigned char begin = (unsigned char)token->text[0];
        added->first[begin + 1]++;
        if (token->bytes == 1)
            memset(added->begins + begin * 256, true, 256);
        else
            added->begins[begin * 256 + (unsigned char)token->text[1]] = true;
    }
    for (int i = 0; i < 256; i++)
        added->first[i + 1] += added->first[i];
    return added;
}

void added_close(struct added *added)
{
    if (added == NULL)
        return;
    for (int64_t i = 0; i < added->count; i++)
        free(added->tokens[i].text);
    free(added->tokens);
    memory_free(added);
}

/* Returns the first of the sorted tokens begin .. end - 1 whose byte at `place` is at least `byte`. */
static int64_t lower_bound(const struct added *added, int64_t begin, int64_t end, int64_t place, int byte)
{
    while (begin < end) {
        int64_t middle = (begin + end) / 2;
        if ((unsigned char)added->tokens[middle].text[place] < byte)
            begin = middle + 1;
        else
            end = middle;
    }
    return begin;
}

/* Returns the longest token at the start of the text; NULL: none. */
static const struct added_token *longest(const struct added *added, const unsigned char *text, int64_t bytes)
{
    const struct added_token *found = NULL;
    int64_t begin = added->first[text[0]], end = added->first[text[0] + 1];
    for (int64_t place = 1; begin < end;
         place++) { /* tokens begin .. end - 1 match the first `place` bytes of the text */
        while (begin < end && added->tokens[begin].bytes == place)
            found = &added->tokens[begin++];
        if (place == bytes)
            break;
        begin = lower_bound(added, begin, end, place, text[place]);
        end = lower_bound(added, begin, end, place, text[place] + 1);
    }
    return found;
}

/* Returns the class bits of the character that ends at `end`, and sets its length in bytes; 0 at the text's start. */
static unsigned class_before(const unsigned char *text, int64_t end, int64_t *length)
{
    int64_t begin = end;
    int bytes;
    while (begin > 0 && (text[--begin] & 0xc0) == 0x80)
        ;
    *length = end - begin;
    return end == 0 ? 0 : classes_get()->of[utf8_read(text + begin, &bytes)];
}

static unsigned class_behind(const unsigned char *text, int64_t begin, int64_t bytes, int64_t *length)
{
    int read = 0;
    unsigned class = begin == bytes ? 0 : classes_get()->of[utf8_read(text + begin, &read)];
    *length = read;
    return class;
}

/* Returns whether the token at begin .. end matches, and extends the range by white space. `done`: end of the previous
 * part. */
static bool place(const struct added_token *token, const unsigned char *text, int64_t bytes, int64_t done,
                  int64_t *begin, int64_t *end)
{
    int64_t length;
    if (token->single_word &&
        ((class_before(text, *begin, &length) & CLASS_WORD) || (class_behind(text, *end, bytes, &length) & CLASS_WORD)))
        return false;
    while (token->lstrip && *begin > done && (class_before(text, *begin, &length) & CLASS_SPACE))
        *begin -= length;
    while (token->rstrip && (class_behind(text, *end, bytes, &length) & CLASS_SPACE))
        *end += length;
    return true;
}

int64_t added_count(const struct added *added)
{
    return added != NULL ? added->count : 0;
}

int32_t added_id(const struct added *added, int64_t number)
{
    return added->tokens[number].id;
}

int added_run(const struct added *added, const unsigned char *text, int64_t bytes, bool specials, int64_t *met,
              added_taker *take, void *context)
{
    int64_t done = 0;
    int code = ERROR_NONE;
    for (int64_t at = 0; added != NULL && at < bytes; at++) {
        if (!added->begins[text[at] * 256 + (at + 1 < bytes ? text[at + 1] : 0)])
            continue;
        const struct added_token *token = longest(added, text + at, bytes - at);
        if (token == NULL)
            continue;
        int64_t begin = at, end = at + token->bytes;
        at = end - 1; /* tokens that stay text also hide tokens inside them */
        if (!place(token, text, bytes, done, &begin, &end))
            continue;
        met[token - added->tokens] += token->special;
        if (token->special && !specials)
            continue;
        if (done < begin)
            code = take(context, text + done, begin - done, -1);
        if (code == ERROR_NONE)
            code = take(context, text + begin, end - begin, token->id);
        if (code != ERROR_NONE)
            return code;
        done = end;
    }
    return done < bytes ? take(context, text + done, bytes - done, -1) : ERROR_NONE;
}
