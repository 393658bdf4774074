#include "tokenizer/bpe_private.h"
#include "base/error.h"
#include "base/memory.h"
#include "tokenizer/bundle.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

void bpe_begin_merges(struct bpe *bpe)
{
    for (int i = 255; i >= 0; i--) {
        unsigned char byte = (unsigned char)i;
        bpe->byte_ids[i] = tokens_find(&bpe->tokens, &byte, 1, TOKEN_TEXT);
        bpe->lacking[i] = bpe->byte_ids[i] < 0;
        if (bpe->lacking[i]) {
            bpe->byte_ids[i] = bpe->unknown;
            bpe->first_lacking = i;
        }
    }
    bpe->merges = merges_open(bpe->byte_ids);
}

int bpe_add_stage(struct bpe *bpe, const struct splitter_settings *settings)
{
    if (bpe->stage_count == BPE_MOST_STAGES)
        return error_user("%s: has more than %d members that split, the maximum", settings->where, BPE_MOST_STAGES);
    int code = splitter_open(&bpe->stages[bpe->stage_count], settings);
    bpe->stage_count += code == ERROR_NONE;
    return code;
}

/* Common names of the token of each role, the likeliest first. */
static const char *const role_names[BPE_ROLES][7] = {
    [BPE_BOS] = {"<|begin_of_text|>", "<s>", "<bos>", "[CLS]", "<\uff5cbegin\u2581of\u2581sentence\uff5c>",
                 "<|endoftext|>"},
    [BPE_EOS] = {"<|end_of_text|>", "</s>", "<eos>", "[SEP]", "<\uff5cend\u2581of\u2581sentence\uff5c>",
                 "<|endoftext|>"},
    [BPE_PAD] = {"<|finetune_right_pad_id|>", "<pad>", "<|pad|>", "[PAD]"},
    [BPE_UNK] = {"<unk>", "[UNK]"},
    [BPE_MASK] = {"<mask>", "[MASK]", "<|mask|>"},
};

static void guess_roles(struct bpe *bpe)
{
    for (int role = 0; role < BPE_ROLES; role++)
        for (int i = 0; bpe->roles[role] < 0 && role_names[role][i] != NULL; i++) {
            const char *name = role_names[role][i];
            bpe->roles[role] = tokens_find(&bpe->tokens, name, (int64_t)strlen(name), TOKEN_SPECIAL);
        }
}

enum bpe_file_kind bpe_file_kind(const void *data, int64_t bytes)
{
    enum { PIECES = 1 << 3 | 2 /* the first field of a ModelProto, of bytes */ };
    const bool spm = bytes > 0 && *(const unsigned char *)data == PIECES;
    return bundle_is_json(data, bytes) ? BPE_FILE_JSON : spm ? BPE_FILE_SPM : BPE_FILE_RANKS;
}

static int read_files(struct bpe *bpe, const struct bpe_file *file, const struct bpe_file *config)
{
    static int (*const readers[])(struct bpe *, const struct bpe_file *) = {
        [BPE_FILE_JSON] = bpe_read_json, [BPE_FILE_SPM] = bpe_read_spm, [BPE_FILE_RANKS] = bpe_read_ranks};
    int code = readers[bpe_file_kind(file->data, file->bytes)](bpe, file);
    if (code != ERROR_NONE)
        return code;
    if (bpe->merges != NULL)
        merges_finish(bpe->merges);
    bpe_make_texts(bpe);
    if (config != NULL)
        return bpe_read_config(bpe, config);
    guess_roles(bpe);
    return ERROR_NONE;
}

int bpe_open(struct bpe **bpe, const struct bpe_file *file, const struct bpe_file *config)
{
    struct bpe *made = memory_allocate(sizeof *made);
    *made = (struct bpe){.name = memory_string(file->name),
                         .prefixed_stage = -1,
                         .metaspace_stage = -1,
                         .first_lacking = -1,
                         .unknown = -1,
                         .roles = {-1, -1, -1, -1, -1},
                         .digest = XXH3_64bits(file->data, (size_t)file->bytes)};
    int code = read_files(made, file, config);
    if (code != ERROR_NONE) {
        bpe_close(made);
        made = NULL;
    }
    *bpe = made;
    return code;
}

void bpe_close(struct bpe *bpe)
{
    if (bpe == NULL)
        return;
    for (int i = 0; i < bpe->stage_count; i++)
        splitter_close(bpe->stages[i]);
    added_close(bpe->added);
    added_close(bpe->added_normalized);
    merges_close(bpe->merges);
    free(bpe->character_ids);
    token_trie_close(bpe->symbols);
    unigram_close(bpe->unigram);
    free(bpe->scores);
    normalizer_free(&bpe->normalizer);
    tokens_free(&bpe->tokens);
    tokens_free(&bpe->texts);
    free(bpe->continuing);
    free(bpe->name);
    memory_free(bpe);
}

int32_t bpe_vocabulary(const struct bpe *bpe)
{
    return bpe->tokens.count;
}

const char *bpe_token(const struct bpe *bpe, int32_t id, int32_t *bytes)
{
    *bytes = bpe->tokens.tokens[id].bytes;
    return tokens_text(&bpe->tokens, id);
}

const char *bpe_text(const struct bpe *bpe, int32_t id, int32_t *bytes)
{
    if (!tokens_has(&bpe->texts, id))
        return bpe_token(bpe, id, bytes);
    *bytes = bpe->texts.tokens[id].bytes;
    return tokens_text(&bpe->texts, id);
}

bool bpe_prepends(const struct bpe *bpe)
{
    return normalizer_prepends(&bpe->normalizer) ||
           (bpe->metaspace_stage >= 0 && bpe->metaspace_prefix != METASPACE_NEVER);
}

bool bpe_is_special(const struct bpe *bpe, int32_t id)
{
    return bpe->tokens.tokens[id].kinds & TOKEN_SPECIAL;
}

int32_t bpe_find(const struct bpe *bpe, const char *token, int64_t bytes)
{
    return tokens_find(&bpe->tokens, token, bytes, ~0u);
}

int32_t bpe_role(const struct bpe *bpe, enum bpe_role role)
{
    return bpe->roles[role];
}

bool bpe_begins(const struct bpe *bpe)
{
    return bpe->begins;
}

bool bpe_ends(const struct bpe *bpe)
{
    return bpe->ends;
}

const char *bpe_model(const struct bpe *bpe)
{
    static const char *const names[] = {[TEXT_BPE] = "bpe",
                                        [TEXT_CHARACTERS] = "bpe",
                                        [TEXT_UNIGRAM] = "unigram",
                                        [TEXT_WORDPIECE] = "wordpiece",
                                        [TEXT_WORDS] = "words"};
    return names[bpe->model];
}

uint64_t bpe_digest(const struct bpe *bpe)
{
    return bpe->digest;
}
