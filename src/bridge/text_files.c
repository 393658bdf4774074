#include "bridge/text_files.h"
#include "base/error.h"
#include "base/memory.h"
#include "bridge/json_file.h"
#include "bridge/tokenizer_json.h"
#include "file/atomic_file.h"
#include "tokenizer/bpe.h"
#include "tokenizer/tokenizer.h"

#include <stdlib.h>

static int write_kept(const struct tokenizer *tokenizer, enum bundle_kind kind, const char *path)
{
    struct atomic_file atomic;
    int code = atomic_file_open(&atomic, path);
    if (code != ERROR_NONE)
        return code;
    fwrite(tokenizer->bundle.files[kind].data, 1, (size_t)tokenizer->bundle.files[kind].bytes, atomic.file);
    return atomic_file_close(&atomic, code);
}

static void put_special(json_t *out, const char *key, const struct tokenizer *tokenizer, int32_t id)
{
    int32_t bytes;
    const char *token = id >= 0 ? bpe_token(tokenizer->bpe, id, &bytes) : NULL;
    if (token != NULL)
        json_object_set_new(out, key, json_stringn(token, (size_t)bytes));
}

static json_t *special_tokens(const struct tokenizer *tokenizer)
{
    json_t *out = json_object();
    put_special(out, "bos_token", tokenizer, tokenizer->bos);
    put_special(out, "eos_token", tokenizer, tokenizer->eos);
    put_special(out, "pad_token", tokenizer, tokenizer->pad);
    put_special(out, "unk_token", tokenizer, tokenizer->unk);
    put_special(out, "mask_token", tokenizer, tokenizer->mask);
    return out;
}

/* Returns whether the tokenizer is a model of SentencePiece, which transformers' classes read without tokenizer.json.
 */
static bool is_spm(const struct tokenizer *tokenizer)
{
    const struct tokenizer_bundle *bundle = &tokenizer->bundle;
    return bundle->files[BUNDLE_JSON].data == NULL &&
           bpe_file_kind(bundle->files[BUNDLE_MODEL].data, bundle->files[BUNDLE_MODEL].bytes) == BPE_FILE_SPM;
}

static json_t *configuration(const struct tokenizer *tokenizer, int64_t tokens)
{
    json_t *out = special_tokens(tokenizer);
    json_object_set_new(out, "tokenizer_class",
                        json_string(is_spm(tokenizer) ? "LlamaTokenizer" : "PreTrainedTokenizerFast"));
    json_object_set_new(out, "model_max_length", json_integer(tokens));
    json_object_set_new(out, "clean_up_tokenization_spaces", json_false());
    json_object_set_new(out, "model_input_names", json_pack("[s, s]", "input_ids", "attention_mask"));
    return out;
}

/* Makes a file that the tokenizer did not come with; NULL: this kind is not needed. */
static json_t *make(const struct tokenizer *tokenizer, enum bundle_kind kind, int64_t tokens)
{
    switch (kind) {
    case BUNDLE_JSON:
        return is_spm(tokenizer) ? NULL : tokenizer_json(tokenizer->bpe);
    case BUNDLE_CONFIG:
        return configuration(tokenizer, tokens);
    case BUNDLE_SPECIALS:
        return special_tokens(tokenizer);
    default:
        return NULL;
    }
}

int text_files_write(const struct tokenizer *tokenizer, int64_t tokens, const char *folder)
{
    int code = ERROR_NONE;
    for (int kind = 0; kind < BUNDLE_KINDS && code == ERROR_NONE; kind++) {
        char *path = memory_format("%s/%s", folder, bundle_names[kind]);
        const bool kept = tokenizer->bundle.files[kind].data != NULL;
        json_t *made = kept ? NULL : make(tokenizer, (enum bundle_kind)kind, tokens);
        if (kept)
            code = write_kept(tokenizer, (enum bundle_kind)kind, path);
        else if (made != NULL)
            code = json_file_write(made, path);
        free(path);
    }
    return code;
}
