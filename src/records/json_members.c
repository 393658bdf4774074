#include "records/json_members.h"

#include <jansson.h>
#include <stdbool.h>
#include <string.h>

const char json_no_object[] = "no object";

struct scan {
    const char *at, *end; /* not read yet */
    const char *wrong;    /* first error; NULL: none */
};

static bool fail(struct scan *scan, const char *wrong)
{
    scan->wrong = wrong;
    return false;
}

/* Skips blanks and returns the next byte; 0 at the end. */
static char peek(struct scan *scan)
{
    while (scan->at < scan->end && (*scan->at == ' ' || *scan->at == '\t' || *scan->at == '\r' || *scan->at == '\n'))
        scan->at++;
    return scan->at < scan->end ? *scan->at : '\0';
}

static bool pass(struct scan *scan, char wanted, const char *wrong)
{
    if (peek(scan) != wanted)
        return fail(scan, wrong);
    scan->at++;
    return true;
}

/* -- Values -------------------------------------------------------------------------------------------------------- */

static bool skip_string(struct scan *scan)
{
    const char *at = scan->at + 1;
    while (at < scan->end && *at != '"')
        at += *at == '\\' && at + 1 < scan->end ? 2 : 1;
    if (at == scan->end)
        return fail(scan, "a string does not end");
    scan->at = at + 1;
    return true;
}

/* Skips digits; there must be at least one. */
static bool skip_digits(struct scan *scan)
{
    const char *first = scan->at;
    while (scan->at < scan->end && *scan->at >= '0' && *scan->at <= '9')
        scan->at++;
    return scan->at > first;
}

static bool skip_one_of(struct scan *scan, const char *characters)
{
    if (scan->at == scan->end || strchr(characters, *scan->at) == NULL || *scan->at == '\0')
        return false;
    scan->at++;
    return true;
}

static bool skip_number(struct scan *scan)
{
    skip_one_of(scan, "-");
    if (!skip_one_of(scan, "0") && !skip_digits(scan))
        return false;
    if (skip_one_of(scan, ".") && !skip_digits(scan))
        return false;
    if (!skip_one_of(scan, "eE"))
        return true;
    skip_one_of(scan, "+-");
    return skip_digits(scan);
}

/* Skips a number of any size, or a word, including those that Python writes for non-finite numbers. */
static bool skip_scalar(struct scan *scan)
{
    static const char *const words[] = {"null", "true", "false", "NaN", "Infinity", "-Infinity"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        const size_t length = strlen(words[i]);
        if ((size_t)(scan->end - scan->at) >= length && memcmp(scan->at, words[i], length) == 0) {
            scan->at += length;
            return true;
        }
    }
    return skip_number(scan) || fail(scan, "a value is expected");
}

static bool skip_object(struct scan *scan, struct json_member *members, int count, int depth);

static bool skip_value(struct scan *scan, int depth);

static bool skip_array(struct scan *scan, int depth)
{
    scan->at++;
    if (peek(scan) != ']') {
        if (!skip_value(scan, depth))
            return false;
        while (peek(scan) == ',') {
            scan->at++;
            if (!skip_value(scan, depth))
                return false;
        }
    }
    return pass(scan, ']', "',' or ']' is expected");
}

static bool skip_value(struct scan *scan, int depth)
{
    const char first = peek(scan);
    if (first == '"')
        return skip_string(scan);
    if (first != '{' && first != '[')
        return skip_scalar(scan);
    if (depth == JSON_DEPTH)
        return fail(scan, "arrays and objects are nested too deep");
    return first == '{' ? skip_object(scan, NULL, 0, depth + 1) : skip_array(scan, depth + 1);
}

/* -- Members ------------------------------------------------------------------------------------------------------- */

/* Returns whether a key, given with its quotes, is the requested one. */
static bool is_key(const char *key, int64_t bytes, const struct json_member *member)
{
    if (memchr(key, '\\', (size_t)bytes) == NULL)
        return bytes - 2 == member->key_bytes && memcmp(key + 1, member->key, (size_t)member->key_bytes) == 0;
    json_t *plain = json_loadb(key, (size_t)bytes, JSON_DECODE_ANY, NULL);
    const bool same = plain != NULL && (int64_t)json_string_length(plain) == member->key_bytes &&
                      memcmp(json_string_value(plain), member->key, (size_t)member->key_bytes) == 0;
    json_decref(plain);
    return same;
}

static bool skip_member(struct scan *scan, struct json_member *members, int count, int depth)
{
    if (peek(scan) != '"')
        return fail(scan, "a member's name is expected");
    const char *key = scan->at;
    if (!skip_string(scan))
        return false;
    const int64_t key_bytes = scan->at - key;
    if (!pass(scan, ':', "':' is expected"))
        return false;
    peek(scan);
    const char *value = scan->at;
    if (!skip_value(scan, depth))
        return false;
    for (int i = 0; i < count; i++)
        if (is_key(key, key_bytes, &members[i])) {
            members[i].value = value;
            members[i].bytes = scan->at - value;
            members[i].count++;
        }
    return true;
}

static bool skip_object(struct scan *scan, struct json_member *members, int count, int depth)
{
    scan->at++;
    if (peek(scan) != '}') {
        if (!skip_member(scan, members, count, depth))
            return false;
        while (peek(scan) == ',') {
            scan->at++;
            if (!skip_member(scan, members, count, depth))
                return false;
        }
    }
    return pass(scan, '}', "',' or '}' is expected");
}

const char *json_members_find(const char *text, int64_t bytes, struct json_member *members, int count, int64_t *at)
{
    struct scan scan = {text, text + bytes, NULL};
    for (int i = 0; i < count; i++) {
        members[i].value = NULL;
        members[i].bytes = members[i].count = 0;
    }
    const bool object = peek(&scan) == '{';
    if (object ? skip_object(&scan, members, count, 1) : skip_value(&scan, 0)) {
        peek(&scan);
        scan.wrong = scan.at < scan.end ? "its end is expected" : object ? NULL : json_no_object;
    }
    *at = scan.at - text;
    return scan.wrong;
}
