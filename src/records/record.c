#include "records/record.h"

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static bool is_odd(char c)
{
    return (unsigned char)(c - '!') > '~' - '!';
}

bool record_clean(char *text, int64_t *length, unsigned char *wrong)
{
    unsigned odd = 0;
    for (int64_t i = 0; i < *length; i++) /* without a branch, since such characters are rare */
        odd |= is_odd(text[i]);
    if (!odd)
        return true;
    int64_t kept = 0;
    for (int64_t i = 0; i < *length; i++) {
        if (is_blank(text[i]))
            continue;
        if (is_odd(text[i])) {
            *wrong = (unsigned char)text[i];
            return false;
        }
        text[kept++] = text[i];
    }
    *length = kept;
    return true;
}

bool record_first_word(const char *text, int64_t bytes, const char **word, int64_t *length, unsigned char *wrong)
{
    const char *end = text + bytes;
    while (text < end && is_blank(*text))
        text++;
    *word = text;
    while (text < end && !is_blank(*text)) {
        if ((unsigned char)*text < ' ') {
            *wrong = (unsigned char)*text;
            return false;
        }
        text++;
    }
    *length = text - *word;
    return true;
}

bool record_stops_take(struct record_stops *stops, struct record_piece *piece)
{
    bool before = stops->waits;
    stops->waits = piece->text[piece->length - 1] == '*';
    piece->length -= stops->waits;
    return before;
}

void record_stops_end(struct record_stops *stops)
{
    stops->dropped += stops->waits;
    stops->waits = false;
}
