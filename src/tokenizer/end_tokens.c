#include "tokenizer/end_tokens.h"
#include "base/error.h"
#include "tokenizer/json_place.h"

static int add(struct end_tokens *ends, const struct json_place *place, int64_t vocabulary, int *outside)
{
    const json_int_t id = json_integer_value(place->value);
    if (!json_is_integer(place->value))
        return place_refuse(place, "an id, a list of ids, or null");
    if (id < 0 || id >= vocabulary || id > INT32_MAX)
        ++*outside;
    else if (ends->count == END_TOKENS_MOST)
        return place_fault(place->of, "has more than %d ids", END_TOKENS_MOST);
    else
        ends->ids[ends->count++] = (int32_t)id;
    return ERROR_NONE;
}

int end_tokens_read(struct end_tokens *ends, const json_t *object, const char *file, int64_t vocabulary, int *outside)
{
    const struct json_place root = {.file = file, .value = object};
    const struct json_place given = place_member(&root, "eos_token_id");
    *ends = (struct end_tokens){0};
    *outside = 0;
    if (place_absent(&given))
        return ERROR_NONE;
    if (!json_is_array(given.value))
        return add(ends, &given, vocabulary, outside);
    int code = ERROR_NONE;
    for (size_t i = 0; i < json_array_size(given.value) && code == ERROR_NONE; i++) {
        const struct json_place id = place_element(&given, i);
        code = add(ends, &id, vocabulary, outside);
    }
    return code;
}
