/* Finds members of a JSON object in its text. Only the values of members that are asked for matter: the others are
 * checked for JSON's structure and passed over, whatever numbers, NaN, Infinity or escapes they hold, so that what
 * nobody asked for cannot end a corpus. (jansson has no such mode: it refuses integers beyond 64 bits, 1e999 and NaN.)
 */
#ifndef RECORDS_JSON_MEMBERS_H
#define RECORDS_JSON_MEMBERS_H

#include <stdint.h>

struct json_member {
    const char *key; /* that is asked for, key_bytes long; not NULL */
    int64_t key_bytes;
    const char *value; /* in the object's text, `bytes` long, without blanks around it; NULL: there is no such member */
    int64_t bytes;
    int64_t count; /* members of this key; value is that of the last */
};

/* Containers within containers, the object itself counted. */
enum { JSON_DEPTH = 2048 };

/* Looks for members[count] in an object, text[bytes], whose key alone is given. NULL: the text is one object. Else what
 * is wrong, at byte *at; json_no_object where the text is another JSON value. */
const char *json_members_find(const char *text, int64_t bytes, struct json_member *members, int count, int64_t *at);
extern const char json_no_object[];

#endif
