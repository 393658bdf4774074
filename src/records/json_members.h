/* Finds members of a JSON object in its text. Only the values of requested members matter. For all others only JSON's
 * structure is checked, whatever numbers, NaN, Infinity or escapes they contain, so that unused members cannot fail the
 * preparation of a data set. (jansson cannot do this: it rejects integers beyond 64 bits, 1e999 and NaN.) */
#ifndef RECORDS_JSON_MEMBERS_H
#define RECORDS_JSON_MEMBERS_H

#include <stdint.h>

struct json_member {
    const char *key; /* [key_bytes] requested key; not NULL */
    int64_t key_bytes;
    const char *value; /* [bytes] in the object's text, without blanks around it; NULL: no such member */
    int64_t bytes;
    int64_t count; /* number of members with this key; value is that of the last one */
};

/* Limit of nested containers, the object included. */
enum { JSON_DEPTH = 2048 };

/* Finds members[count] in an object, text[bytes]; the caller sets only their keys. Returns NULL if the text is one
 * object, json_no_object if it is another JSON value, else what is wrong at byte *at. */
const char *json_members_find(const char *text, int64_t bytes, struct json_member *members, int count, int64_t *at);
extern const char json_no_object[];

#endif
