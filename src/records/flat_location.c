#include "records/flat_location.h"
#include "tokenizer/strand.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { DEEPEST = 16 };

/* A location that is being read. */
struct location {
    const char *at;
    const char *letters;
    int64_t length;
    char *out;
    int64_t count, capacity;
};

static void turn(char *letters, int64_t count)
{
    for (int64_t i = 0, j = count - 1; i <= j; i++, j--) {
        const char letter = (char)strand_complement((unsigned char)letters[i]);
        letters[i] = (char)strand_complement((unsigned char)letters[j]);
        letters[j] = letter;
    }
}

static bool skip(struct location *l, const char *word)
{
    const size_t bytes = strlen(word);
    if (strncmp(l->at, word, bytes) != 0)
        return false;
    l->at += bytes;
    return true;
}

/* A position; '<' and '>' mean that the feature goes on beyond it. */
static bool read_position(struct location *l, int64_t *position)
{
    char *end;
    if (!skip(l, "<"))
        skip(l, ">");
    if (!isdigit((unsigned char)*l->at))
        return false;
    *position = strtoll(l->at, &end, 10);
    l->at = end;
    return true;
}

static enum location_result read_range(struct location *l)
{
    int64_t first, last;
    if (!read_position(l, &first))
        return LOCATION_OTHER;
    last = first;
    if (skip(l, "..") && !read_position(l, &last))
        return LOCATION_OTHER;
    if (*l->at != '\0' && *l->at != ',' && *l->at != ')')
        return LOCATION_OTHER;
    if (first < 1 || last < first || last > l->length)
        return LOCATION_BEYOND;
    if (last - first + 1 > l->capacity - l->count)
        return LOCATION_OTHER;
    memcpy(l->out + l->count, l->letters + first - 1, (size_t)(last - first + 1));
    l->count += last - first + 1;
    return LOCATION_GOOD;
}

static enum location_result read_location(struct location *l, int depth)
{
    const int64_t begin = l->count;
    const bool turned = skip(l, "complement(");
    if (!turned && !skip(l, "join(") && !skip(l, "order("))
        return read_range(l);
    enum location_result result = depth == DEEPEST ? LOCATION_OTHER : LOCATION_GOOD;
    do
        result = result == LOCATION_GOOD ? read_location(l, depth + 1) : result;
    while (result == LOCATION_GOOD && skip(l, ","));
    if (result == LOCATION_GOOD && !skip(l, ")"))
        result = LOCATION_OTHER;
    if (result == LOCATION_GOOD && turned)
        turn(l->out + begin, l->count - begin);
    return result;
}

enum location_result location_letters(const char *location, const char *letters, int64_t length, char *out,
                                      int64_t *count, int64_t capacity)
{
    struct location l = {location, letters, length, out, *count, capacity};
    enum location_result result = read_location(&l, 0);
    if (result == LOCATION_GOOD && *l.at != '\0')
        result = LOCATION_OTHER;
    *count = l.count;
    return result;
}
