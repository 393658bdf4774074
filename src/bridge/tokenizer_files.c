#include "bridge/tokenizer_files.h"
#include "base/error.h"
#include "base/memory.h"
#include "bridge/json_file.h"
#include "tokenizer/tokenizer.h"
#include "file/atomic_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* -- vocab.txt ----------------------------------------------------------------------------------------------------- */

static json_t *token_text(const struct tokenizer *tokenizer, int32_t id)
{
    char buffer[TOKENIZER_TEXT];
    return json_string(tokenizer_token(tokenizer, id, buffer));
}

static json_t *special_tokens(const struct tokenizer *tokenizer, const char *bos_key)
{
    json_t *out = json_object();
    json_object_set_new(out, bos_key, token_text(tokenizer, tokenizer->bos));
    json_object_set_new(out, "eos_token", token_text(tokenizer, tokenizer->eos));
    json_object_set_new(out, "unk_token", token_text(tokenizer, tokenizer->unk));
    json_object_set_new(out, "pad_token", token_text(tokenizer, tokenizer->pad));
    if (tokenizer->mask >= 0)
        json_object_set_new(out, "mask_token", token_text(tokenizer, tokenizer->mask));
    return out;
}

static int write_vocabulary(const struct tokenizer *tokenizer, const char *path)
{
    char buffer[TOKENIZER_TEXT];
    struct atomic_file atomic;
    int code = atomic_file_open(&atomic, path);
    if (code != ERROR_NONE)
        return code;
    for (int32_t id = 0; id < tokenizer->vocabulary; id++)
        fprintf(atomic.file, "%s\n", tokenizer_token(tokenizer, id, buffer));
    return atomic_file_close(&atomic, code);
}

/* -- tokenizer.json ------------------------------------------------------------------------------------------------ */

static json_t *vocabulary(const struct tokenizer *tokenizer)
{
    char buffer[TOKENIZER_TEXT];
    json_t *out = json_object();
    for (int32_t id = 0; id < tokenizer->vocabulary; id++)
        json_object_set_new(out, tokenizer_token(tokenizer, id, buffer), json_integer(id));
    return out;
}

static json_t *added_tokens(const struct tokenizer *tokenizer)
{
    json_t *out = json_array();
    for (int32_t id = 0; id < tokenizer->vocabulary; id++)
        if (tokenizer_is_special(tokenizer, id))
            json_array_append_new(out, json_pack("{s:i, s:o, s:b, s:b, s:b, s:b, s:b}", "id", (int)id, "content",
                                                 token_text(tokenizer, id), "single_word", 0, "lstrip", 0, "rstrip", 0,
                                                 "normalized", 0, "special", 1));
    return out;
}

/* Returns one part of a template: {"Sequence" or "SpecialToken": {"id": ..., "type_id": 0}}. */
static json_t *part(const char *kind, json_t *id)
{
    return json_pack("{s:{s:o, s:i}}", kind, "id", id, "type_id", 0);
}

/* Returns the template: for each of the sequences "A", "B", BOS, the text and, for masked models, EOS. Causal models
 * have no EOS, so that they continue the text, as cistron generate does. */
static json_t *template(const struct tokenizer *tokenizer, bool ends, const char *sequences)
{
    json_t *out = json_array();
    for (const char *name = sequences; *name != '\0'; name++) {
        json_array_append_new(out, part("SpecialToken", token_text(tokenizer, tokenizer->bos)));
        json_array_append_new(out, part("Sequence", json_stringn(name, 1)));
        if (ends)
            json_array_append_new(out, part("SpecialToken", token_text(tokenizer, tokenizer->eos)));
    }
    return out;
}

static json_t *post_processor(const struct tokenizer *tokenizer, bool ends)
{
    const int32_t ids[] = {tokenizer->bos, tokenizer->eos};
    json_t *tokens = json_object();
    for (int i = 0; i < 2; i++) {
        char buffer[TOKENIZER_TEXT];
        const char *text = tokenizer_token(tokenizer, ids[i], buffer);
        json_object_set_new(tokens, text,
                            json_pack("{s:s, s:[i], s:[s]}", "id", text, "ids", (int)ids[i], "tokens", text));
    }
    return json_pack("{s:s, s:o, s:o, s:o}", "type", "TemplateProcessing", "single", template(tokenizer, ends, "A"),
                     "pair", template(tokenizer, ends, "AB"), "special_tokens", tokens);
}

/* Returns the normalizer, which replaces lower-case letters of nucleotides by capitals, as this program does by
 * default. */
static json_t *normalizer(const struct tokenizer *tokenizer)
{
    if (!tokenizer->bases)
        return json_null();
    json_t *letters = json_array();
    for (char c = 'a'; c <= 'z'; c++) {
        const char capital = (char)(c - 'a' + 'A');
        json_array_append_new(letters, json_pack("{s:s, s:{s:s%}, s:s%}", "type", "Replace", "pattern", "String", &c,
                                                 (size_t)1, "content", &capital, (size_t)1));
    }
    return json_pack("{s:s, s:o}", "type", "Sequence", "normalizers", letters);
}

/* Returns tokenizer.json. The pattern splits the text into characters, line ends included. */
static json_t *whole_tokenizer(const struct tokenizer *tokenizer, bool ends)
{
    json_t *out = json_object();
    json_object_set_new(out, "version", json_string("1.0"));
    json_object_set_new(out, "truncation", json_null());
    json_object_set_new(out, "padding", json_null());
    json_object_set_new(out, "added_tokens", added_tokens(tokenizer));
    json_object_set_new(out, "normalizer", normalizer(tokenizer));
    json_object_set_new(out, "pre_tokenizer",
                        json_pack("{s:s, s:{s:s}, s:s, s:b}", "type", "Split", "pattern", "Regex", "[\\s\\S]",
                                  "behavior", "Isolated", "invert", 0));
    json_object_set_new(out, "post_processor", post_processor(tokenizer, ends));
    json_object_set_new(out, "decoder", json_pack("{s:s}", "type", "Fuse"));
    json_object_set_new(out, "model",
                        json_pack("{s:s, s:o, s:o}", "type", "WordLevel", "vocab", vocabulary(tokenizer), "unk_token",
                                  token_text(tokenizer, tokenizer->unk)));
    return out;
}

/* -- All files ----------------------------------------------------------------------------------------------------- */

static int write_json(json_t *object, const char *folder, const char *name)
{
    char *path = memory_format("%s/%s", folder, name);
    int code = json_file_write(object, path);
    free(path);
    return code;
}

int tokenizer_files_write(const struct tokenizer *tokenizer, const struct tokenizer_files *of, const char *folder)
{
    const char *class = of->class;
    const char *bos_key = class != NULL ? "cls_token" : "bos_token";
    json_t *settings = special_tokens(tokenizer, bos_key);
    json_object_set_new(settings, "tokenizer_class", json_string(class != NULL ? class : "PreTrainedTokenizerFast"));
    json_object_set_new(settings, "model_max_length", json_integer(of->tokens));
    json_object_set_new(settings, "clean_up_tokenization_spaces", json_false());
    json_object_set_new(settings, "model_input_names", json_pack("[s, s]", "input_ids", "attention_mask"));
    int code = write_json(settings, folder, "tokenizer_config.json");
    if (code == ERROR_NONE)
        code = write_json(special_tokens(tokenizer, bos_key), folder, "special_tokens_map.json");
    if (code == ERROR_NONE && class == NULL)
        code = write_json(whole_tokenizer(tokenizer, of->ends), folder, "tokenizer.json");
    if (code == ERROR_NONE && class != NULL) {
        char *path = memory_format("%s/vocab.txt", folder);
        code = write_vocabulary(tokenizer, path);
        free(path);
    }
    return code;
}

bool tokenizer_files_match(const struct tokenizer *tokenizer, const char *folder)
{
    char *path = memory_format("%s/tokenizer.json", folder);
    json_t *root, *ours = vocabulary(tokenizer);
    if (json_file_read(&root, path) != ERROR_NONE)
        error_clear(); /* the file is optional */
    bool match = json_equal(json_object_get(json_object_get(root, "model"), "vocab"), ours);
    json_decref(ours);
    json_decref(root);
    free(path);
    return match;
}
