/* Reads tokenizer.json of Hugging Face's tokenizers. Unsupported features are rejected, naming the member. Source:
 * tokenizers 0.23, docs and files of its models. */
#include "base/error.h"
#include "tokenizer/bpe_private.h"
#include "tokenizer/json_members.h"

#include <jansson.h>
#include <string.h>

const char *member_type(const struct json_place *place)
{
    const char *type = json_string_value(json_object_get(place->value, "type"));
    return type == NULL ? "" : type;
}

int member_refuse_type(const struct json_place *of, const char *allowed)
{
    struct json_place type = place_member(of, "type");
    return place_refuse(&type, allowed);
}

int member_read_parts(struct bpe *bpe, const struct json_place *place, const char *parts, member_part_reader *read)
{
    if (place_absent(place))
        return ERROR_NONE;
    if (!json_is_object(place->value))
        return place_refuse(place, "an object or null");
    if (strcmp(member_type(place), "Sequence") != 0)
        return read(bpe, place);
    struct json_place list = place_member(place, parts);
    int code = json_is_array(list.value) ? ERROR_NONE : place_refuse(&list, "an array");
    for (size_t i = 0; code == ERROR_NONE && i < json_array_size(list.value); i++) {
        struct json_place part = place_element(&list, i);
        code = member_read_parts(bpe, &part, parts, read);
    }
    return code;
}

/* Decoders only matter to the library: bpe_text says what an id stands for. */
static int read_decoder(struct bpe *bpe, const struct json_place *part)
{
    static const char *const others[] = {"WordPiece", "Fuse", "ByteFallback", "Metaspace", "Replace", "Strip"};
    const char *type = member_type(part);
    if (bpe->model == TEXT_BPE)
        return strcmp(type, "ByteLevel") == 0 ? ERROR_NONE : member_refuse_type(part, "\"ByteLevel\"");
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strcmp(type, others[i]) == 0)
            return ERROR_NONE;
    return member_refuse_type(part, "WordPiece, Metaspace, Fuse, ByteFallback, Replace, Strip or Sequence");
}

static int read_root(struct bpe *bpe, const struct json_place *root)
{
    struct json_place normalizer = place_member(root, "normalizer"), processor = place_member(root, "post_processor");
    struct json_place decoder = place_member(root, "decoder");
    int code = member_read_kind(bpe, root);
    if (code == ERROR_NONE)
        code = member_read_parts(bpe, &normalizer, "normalizers", member_read_normalizer);
    if (code == ERROR_NONE)
        code = member_read_splitters(bpe, root);
    if (code == ERROR_NONE)
        code = member_read_parts(bpe, &decoder, "decoders", read_decoder);
    if (code == ERROR_NONE)
        code = member_read_model(bpe, root);
    if (code == ERROR_NONE)
        code = member_read_added(bpe, root);
    if (code == ERROR_NONE && bpe->model == TEXT_UNIGRAM)
        bpe_begin_unigram(bpe);
    if (code == ERROR_NONE)
        code = member_read_parts(bpe, &processor, "processors", member_read_ends);
    return code;
}

int bpe_read_json(struct bpe *bpe, const struct bpe_file *file)
{
    json_t *object;
    int code = place_parse(&object, file);
    if (code != ERROR_NONE)
        return code;
    const struct json_place root = {.file = bpe->name, .value = object};
    code = read_root(bpe, &root);
    json_decref(object);
    return code;
}
