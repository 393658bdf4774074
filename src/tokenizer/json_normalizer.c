/* Reads "normalizer" of a tokenizer.json. */
#include "base/error.h"
#include "tokenizer/bpe_private.h"
#include "tokenizer/json_members.h"

#include <string.h>

/* Reads BertNormalizer. Accents are stripped where lower case is made, unless strip_accents says otherwise. */
static int read_bert(struct bpe *bpe, const struct json_place *part)
{
    struct bert_normalizer *to = &bpe->normalizer;
    struct json_place strip = place_member(part, "strip_accents");
    int code = place_bool(&to->clean, part, "clean_text", true);
    if (code == ERROR_NONE)
        code = place_bool(&to->chinese, part, "handle_chinese_chars", true);
    if (code == ERROR_NONE)
        code = place_bool(&to->lower, part, "lowercase", true);
    to->strip = to->lower;
    if (code == ERROR_NONE && !place_absent(&strip))
        code = place_bool(&to->strip, part, "strip_accents", false);
    bpe->bert = true;
    return code;
}

int member_read_normalizer(struct bpe *bpe, const struct json_place *part)
{
    if (bpe->model != TEXT_BPE && !bpe->bert && strcmp(member_type(part), "BertNormalizer") == 0)
        return read_bert(bpe, part);
    if (bpe->model != TEXT_BPE && !bpe->bert && strcmp(member_type(part), "Lowercase") == 0) {
        bpe->bert = bpe->normalizer.lower = true;
        return ERROR_NONE;
    }
    if (bpe->model != TEXT_BPE)
        return member_refuse_type(part, "one BertNormalizer or Lowercase, or normalizer null");
    bpe->nfc = true;
    return strcmp(member_type(part), "NFC") == 0 ? ERROR_NONE : member_refuse_type(part, "\"NFC\", or normalizer null");
}
