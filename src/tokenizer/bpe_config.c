/* Reads tokenizer_config.json of transformers: roles of tokens, and tokens around texts. */
#include "base/error.h"
#include "tokenizer/bpe_private.h"
#include "tokenizer/json_place.h"

#include <string.h>

/* Reads a role such as "bos_token": "<s>", or an object with "content". */
static int read_role(struct bpe *bpe, const struct json_place *root, enum bpe_role role)
{
    static const char *const names[BPE_ROLES] = {"bos_token", "eos_token", "pad_token", "unk_token", "mask_token"};
    struct json_place given = place_member(root, names[role]);
    if (place_absent(&given) && role == BPE_BOS) /* the names of BERT */
        given = place_member(root, "cls_token");
    if (place_absent(&given) && role == BPE_EOS)
        given = place_member(root, "sep_token");
    if (place_absent(&given))
        return ERROR_NONE;
    struct json_place content = json_is_object(given.value) ? place_member(&given, "content") : given;
    const char *text = json_string_value(content.value);
    if (text == NULL)
        return place_refuse(&content, "a token or null");
    int32_t id = bpe_find(bpe, text, (int64_t)strlen(text));
    if (id < 0)
        return place_fault(&content, "\"%s\" is not a token of %s", text, bpe->name);
    bool placed = role == BPE_BOS ? bpe->begins : role == BPE_EOS && bpe->ends;
    if (placed && id != bpe->roles[role])
        return place_fault(&content, "\"%s\" has id %d, but %s puts id %d %s texts", text, (int)id, bpe->name,
                           (int)bpe->roles[role], role == BPE_BOS ? "before" : "after");
    bpe->roles[role] = id;
    return ERROR_NONE;
}

/* Reads "add_bos_token" or "add_eos_token", which classes of transformers use in place of the template. */
static int read_placed(bool *placed, const struct json_place *root, const char *name, int32_t id)
{
    int code = place_bool(placed, root, name, *placed);
    struct json_place given = place_member(root, name);
    return code == ERROR_NONE && *placed && id < 0 ? place_refuse(&given, "false if there is no such token") : code;
}

int bpe_read_config(struct bpe *bpe, const struct bpe_file *config)
{
    json_t *object;
    int code = place_parse(&object, config);
    if (code != ERROR_NONE)
        return code;
    const struct json_place root = {.file = config->name, .value = object};
    for (int role = 0; code == ERROR_NONE && role < BPE_ROLES; role++)
        code = read_role(bpe, &root, (enum bpe_role)role);
    if (code == ERROR_NONE)
        code = read_placed(&bpe->begins, &root, "add_bos_token", bpe->roles[BPE_BOS]);
    if (code == ERROR_NONE)
        code = read_placed(&bpe->ends, &root, "add_eos_token", bpe->roles[BPE_EOS]);
    json_decref(object);
    return code;
}
