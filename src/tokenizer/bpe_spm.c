/* Makes a tokenizer of a SentencePiece model. */
#include "base/error.h"
#include "base/memory.h"
#include "base/range.h"
#include "tokenizer/bpe_private.h"
#include "tokenizer/spm_model.h"
#include "tokenizer/utf8.h"

#include <float.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Checks that the model has no feature that is not supported. */
static int check(const struct bpe *bpe, const struct spm_model *model)
{
    if (model->kind != SPM_UNIGRAM && model->kind != SPM_BPE)
        return error_user("%s: trainer_spec.model_type: %s is not supported; must be UNIGRAM or BPE", bpe->name,
                          model->kind == SPM_WORD   ? "WORD"
                          : model->kind == SPM_CHAR ? "CHAR"
                                                    : "an unknown one");
    if (model->suffix)
        return error_user("%s: trainer_spec.treat_whitespace_as_suffix: true is not supported; must be false",
                          bpe->name);
    for (int64_t id = 0; id < model->count; id++)
        if (model->pieces[id].type == SPM_UNUSED)
            return error_user("%s: piece %" PRId64 ": type UNUSED is not supported", bpe->name, id);
    return ERROR_NONE;
}

/* Adds the pieces as tokens: control and unknown pieces are special, and found in prompts. */
static int add_tokens(struct bpe *bpe, const struct spm_model *model)
{
    struct added_token *specials = memory_grow(NULL, model->count * (int64_t)sizeof *specials);
    int64_t count = 0;
    for (int64_t i = 0; i < model->count; i++) {
        const struct spm_piece *piece = &model->pieces[i];
        const int32_t id = (int32_t)i;
        const bool special = piece->type == SPM_CONTROL || piece->type == SPM_UNKNOWN;
        tokens_add(&bpe->tokens, id, piece->text, piece->bytes,
                   special                   ? TOKEN_ADDED | TOKEN_SPECIAL
                   : piece->type == SPM_BYTE ? TOKEN_BYTE
                                             : TOKEN_TEXT);
        if (piece->type == SPM_UNKNOWN)
            bpe->unknown = id;
        if (special && piece->bytes <= ADDED_BYTES_MOST)
            specials[count++] = (struct added_token){.text = memory_format("%.*s", (int)piece->bytes, piece->text),
                                                     .bytes = piece->bytes,
                                                     .id = id,
                                                     .special = true};
    }
    bpe->added = added_open(specials, count);
    free(specials);
    tokens_index(&bpe->tokens);
    for (int32_t id = 0; id < bpe->tokens.count; id++)
        if (tokens_find(&bpe->tokens, tokens_text(&bpe->tokens, id), bpe->tokens.tokens[id].bytes, ~0u) != id)
            return error_user("%s: piece %d is there twice", bpe->name, (int)id);
    return bpe->unknown >= 0 ? ERROR_NONE : error_user("%s: has no piece of type UNKNOWN", bpe->name);
}

static int set_bytes(struct bpe *bpe, const struct spm_model *model)
{
    for (int i = 0; i < 256; i++)
        bpe->byte_ids[i] = bpe->unknown;
    if (!model->falls_back)
        return ERROR_NONE;
    bpe->falls_back = true;
    return bpe_find_bytes(bpe) == 256
               ? ERROR_NONE
               : error_user("%s: trainer_spec.byte_fallback: true needs the pieces <0x00> to <0xFF>", bpe->name);
}

static int add_normalizer(struct bpe *bpe, const struct spm_model *model)
{
    const struct normalizer_step step = {
        .kind = NORMALIZER_SPM,
        .spm = {.symbols = bpe->symbols,
                .prefix = model->prefix,
                .single = model->single,
                .escape = model->escape,
                .charsmap = model->charsmap != NULL ? charsmap_open(model->charsmap, model->charsmap_bytes) : NULL}};
    if (model->charsmap != NULL && step.spm.charsmap == NULL)
        return error_user("%s: normalizer_spec.precompiled_charsmap: is damaged", bpe->name);
    normalizer_add(&bpe->normalizer, &step);
    return ERROR_NONE;
}

static void add_symbols(struct bpe *bpe, const struct spm_model *model)
{
    for (int64_t id = 0; id < model->count; id++) {
        if (model->pieces[id].type != SPM_USER_DEFINED)
            continue;
        if (bpe->symbols == NULL)
            bpe->symbols = token_trie_open();
        token_trie_add(bpe->symbols, model->pieces[id].text, model->pieces[id].bytes, (int32_t)id);
    }
}

/* -- Unigram ------------------------------------------------------------------------------------------------------- */

/* SentencePiece's scores: float, with a bonus for user-defined pieces by their bytes. */
static void begin_unigram(struct bpe *bpe, const struct spm_model *model)
{
    float least = FLT_MAX, most = FLT_MIN;
    for (int64_t id = 0; id < model->count; id++)
        if (model->pieces[id].type == SPM_NORMAL) {
            least = MIN(least, model->pieces[id].score);
            most = MAX(most, model->pieces[id].score);
        }
    bpe->unigram = unigram_open(true);
    for (int64_t id = 0; id < model->count; id++) {
        const struct spm_piece *piece = &model->pieces[id];
        const double score =
            piece->type == SPM_USER_DEFINED ? (double)((float)piece->bytes * most) - 0.1 : (double)piece->score;
        if (piece->type == SPM_NORMAL || piece->type == SPM_USER_DEFINED)
            unigram_add(bpe->unigram, piece->text, piece->bytes, (int32_t)id, score);
    }
    unigram_set_unknown(bpe->unigram, (double)(least - 10.0F));
}

/* -- BPE ----------------------------------------------------------------------------------------------------------- */

static int compare(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return (x < y) - (x > y);
}

/* Returns the number of scores above this one, among scores[count] in descending order. */
static uint32_t rank_of(const float *scores, int64_t count, float score)
{
    int64_t begin = 0, end = count;
    while (begin < end) {
        const int64_t middle = (begin + end) / 2;
        if (scores[middle] > score)
            begin = middle + 1;
        else
            end = middle;
    }
    return (uint32_t)begin;
}

/* Returns the symbol of a part of a piece: a token, or a character without one; -1: neither. */
static int32_t symbol_of(const struct bpe *bpe, const char *text, int64_t bytes)
{
    int length;
    const int32_t id = tokens_find(&bpe->tokens, text, bytes, TOKEN_TEXT);
    const uint32_t code = utf8_read((const unsigned char *)text, &length);
    return id >= 0 ? id : length == bytes ? BPE_CHARACTER_SYMBOLS + (int32_t)code : -1;
}

/* Sets a merge for every pair of symbols that makes a piece. Pieces with higher scores are merged first. */
static void set_merges(struct bpe *bpe, const struct spm_model *model)
{
    float *scores = memory_grow(NULL, model->count * (int64_t)sizeof *scores);
    for (int64_t id = 0; id < model->count; id++)
        scores[id] = model->pieces[id].score;
    qsort(scores, (size_t)model->count, sizeof *scores, compare);
    for (int64_t id = 0; id < model->count; id++) {
        const struct spm_piece *piece = &model->pieces[id];
        const bool text = piece->type == SPM_NORMAL || piece->type == SPM_USER_DEFINED;
        for (int64_t cut = 1; text && cut < piece->bytes; cut++) {
            if ((piece->text[cut] & 0xc0) == 0x80)
                continue;
            const int32_t left = symbol_of(bpe, piece->text, cut);
            const int32_t right = left >= 0 ? symbol_of(bpe, piece->text + cut, piece->bytes - cut) : -1;
            if (right >= 0)
                merges_set(bpe->merges, left, right, rank_of(scores, model->count, piece->score), (int32_t)id);
        }
    }
    free(scores);
}

/* ------------------------------------------------------------------------------------------------------------------ */

static int build(struct bpe *bpe, const struct spm_model *model)
{
    int code = check(bpe, model);
    if (code == ERROR_NONE)
        code = add_tokens(bpe, model);
    if (code == ERROR_NONE)
        code = set_bytes(bpe, model);
    if (code != ERROR_NONE)
        return code;
    add_symbols(bpe, model);
    code = add_normalizer(bpe, model);
    if (code != ERROR_NONE)
        return code;
    bpe->model = model->kind == SPM_BPE ? TEXT_CHARACTERS : TEXT_UNIGRAM;
    bpe->fuses_unknown = true;
    bpe->roles[BPE_UNK] = bpe->unknown;
    bpe->roles[BPE_BOS] = model->bos;
    bpe->roles[BPE_EOS] = model->eos;
    bpe->roles[BPE_PAD] = model->pad;
    bpe->begins = model->bos >= 0;
    if (bpe->model == TEXT_UNIGRAM) {
        begin_unigram(bpe, model);
        return ERROR_NONE;
    }
    bpe_begin_characters(bpe);
    set_merges(bpe, model);
    return bpe_split_words(bpe);
}

int bpe_read_spm(struct bpe *bpe, const struct bpe_file *file)
{
    struct spm_model model;
    int code = spm_model_read(&model, file);
    if (code == ERROR_NONE)
        code = build(bpe, &model);
    spm_model_free(&model);
    return code;
}
