/* Reads rank files of tiktoken. Each line has a token's bytes in base64 and its rank, which is both its id and its
 * merge priority. Pattern and special tokens are not in the file; those of Llama 3 are used, whose tokenizer.model is a
 * rank file. Source: llama_models/llama3/tokenizer.py of the package llama-models 0.3.0. */
#include "base/error.h"
#include "base/memory.h"
#include "tokenizer/bpe_private.h"
#include "tokenizer/splitter_known.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE_MOST = 4 + TOKENS_BYTES_MOST / 3 * 4 + 32, SPECIALS = 256 };

static const char *const special_names[] = {"<|begin_of_text|>",
                                            "<|end_of_text|>",
                                            "<|reserved_special_token_0|>",
                                            "<|reserved_special_token_1|>",
                                            "<|finetune_right_pad_id|>",
                                            "<|step_id|>",
                                            "<|start_header_id|>",
                                            "<|end_header_id|>",
                                            "<|eom_id|>",
                                            "<|eot_id|>",
                                            "<|python_tag|>",
                                            "<|image|>"};
enum { NAMED = sizeof special_names / sizeof *special_names, RESERVED_BEFORE = 2 };

/* Common rank files of other models, by their number of ranks. */
static const struct {
    int ranks;
    const char *name;
} foreign[] = {{50256, "GPT-2's"},      {50257, "GPT-2's"}, {50280, "p50k_base"},
               {100256, "cl100k_base"}, {151643, "Qwen's"}, {199998, "o200k_base"}};

struct lines {
    const char *name, *at, *end;
    int64_t line;
};

/* Returns the value of a base64 character; -1 for others. */
static int base64_value(char character)
{
    static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *found = character == '\0' ? NULL : strchr(alphabet, character);
    return found == NULL ? -1 : (int)(found - alphabet);
}

/* Decodes base64 text of `length` characters into out; returns the number of bytes, -1 if invalid. Source: RFC 4648. */
static int64_t base64_decode(char *out, const char *text, int64_t length)
{
    int64_t used = 0;
    if (length == 0 || length % 4 != 0)
        return -1;
    for (int64_t at = 0; at < length; at += 4) {
        uint32_t bits = 0;
        int padding = 0;
        for (int i = 0; i < 4; i++) {
            bool pad = text[at + i] == '=' && at + 4 == length && i >= 2;
            int value = pad ? 0 : padding > 0 ? -1 : base64_value(text[at + i]);
            if (value < 0)
                return -1;
            padding += pad;
            bits = bits << 6 | (uint32_t)value;
        }
        for (int i = 0; i < 3 - padding; i++)
            out[used++] = (char)(bits >> (16 - 8 * i));
    }
    return used;
}

/* Reads one line: base64, a space, a rank. */
static int read_line(struct bpe *bpe, const struct lines *lines, const char *end, char *scratch)
{
    const char *space = memchr(lines->at, ' ', (size_t)(end - lines->at));
    int64_t rank = 0;
    int64_t bytes =
        space == NULL || end - lines->at > LINE_MOST ? -1 : base64_decode(scratch, lines->at, space - lines->at);
    if (bytes < 0 || space + 1 == end || end - space > 12)
        return error_user("%s:%" PRId64
                          ": is not a line of a rank file (a token's bytes in base64, a space, its rank), "
                          "and the file is neither a tokenizer.json nor a SentencePiece model",
                          lines->name, lines->line);
    for (const char *digit = space + 1; digit < end; digit++) {
        if (*digit < '0' || *digit > '9')
            return error_user("%s:%" PRId64 ": the rank is not a number", lines->name, lines->line);
        rank = rank * 10 + (*digit - '0');
    }
    if (rank >= TOKENS_MOST)
        return error_user("%s:%" PRId64 ": rank %" PRId64 " is not below %d, the maximum", lines->name, lines->line,
                          rank, TOKENS_MOST);
    if (tokens_has(&bpe->tokens, rank))
        return error_user("%s:%" PRId64 ": rank %" PRId64 " occurs twice", lines->name, lines->line, rank);
    tokens_add(&bpe->tokens, (int32_t)rank, scratch, bytes, TOKEN_TEXT);
    return ERROR_NONE;
}

static int read_lines(struct bpe *bpe, const struct bpe_file *file)
{
    struct lines lines = {.name = file->name, .at = file->data, .line = 1};
    char *scratch = memory_grow(NULL, LINE_MOST);
    int code = ERROR_NONE;
    lines.end = lines.at + file->bytes;
    while (code == ERROR_NONE && lines.at < lines.end) {
        const char *newline = memchr(lines.at, '\n', (size_t)(lines.end - lines.at));
        const char *next = newline == NULL ? lines.end : newline + 1, *end = newline == NULL ? lines.end : newline;
        end -= end > lines.at && end[-1] == '\r';
        if (end > lines.at)
            code = read_line(bpe, &lines, end, scratch);
        lines.at = next;
        lines.line++;
    }
    free(scratch);
    return code;
}

static int check_ranks(const struct bpe *bpe)
{
    const struct text_tokens *tokens = &bpe->tokens;
    for (int32_t id = 0; id < tokens->count; id++) {
        if (!tokens_has(tokens, id))
            return error_user("%s: rank %d is missing; ranks go from 0 to their count less one", bpe->name, (int)id);
        int32_t same = tokens_find(tokens, tokens_text(tokens, id), tokens->tokens[id].bytes, TOKEN_TEXT);
        if (same != id)
            return error_user("%s: ranks %d and %d are the same token", bpe->name, (int)same, (int)id);
    }
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++)
        if (foreign[i].ranks == tokens->count)
            return error_user("%s: has %d ranks: it is %s, whose pattern and special tokens are not in a rank file; "
                              "use the model's tokenizer.json (of rank files only Llama 3's is supported)",
                              bpe->name, foreign[i].ranks, foreign[i].name);
    return ERROR_NONE;
}

/* Sets a merge for every pair of tokens that makes a third one. */
static void set_merges(struct bpe *bpe, int32_t ranks)
{
    for (int32_t id = 0; id < ranks; id++) {
        const char *text = tokens_text(&bpe->tokens, id);
        int32_t bytes = bpe->tokens.tokens[id].bytes;
        for (int32_t cut = 1; cut < bytes; cut++) {
            int32_t left = tokens_find(&bpe->tokens, text, cut, TOKEN_TEXT);
            int32_t right = left < 0 ? -1 : tokens_find(&bpe->tokens, text + cut, bytes - cut, TOKEN_TEXT);
            if (right >= 0)
                merges_set(bpe->merges, left, right, (uint32_t)id, id);
        }
    }
}

static void add_specials(struct bpe *bpe)
{
    struct added_token added[SPECIALS];
    int32_t first = bpe->tokens.count;
    for (int i = 0; i < SPECIALS; i++) {
        char *name = i < NAMED ? memory_string(special_names[i])
                               : memory_format("<|reserved_special_token_%d|>", RESERVED_BEFORE + i - NAMED);
        int64_t bytes = (int64_t)strlen(name);
        tokens_add(&bpe->tokens, first + i, name, bytes, TOKEN_ADDED | TOKEN_SPECIAL);
        added[i] = (struct added_token){.text = name, .bytes = bytes, .id = first + i, .special = true};
    }
    bpe->added = added_open(added, SPECIALS);
}

int bpe_read_ranks(struct bpe *bpe, const struct bpe_file *file)
{
    const struct splitter_settings pattern = {
        .pattern = splitter_llama3, .behavior = SPLIT_ISOLATED, .where = file->name};
    int code = read_lines(bpe, file);
    if (code != ERROR_NONE)
        return code;
    if (bpe->tokens.count == 0)
        return error_user("%s: is empty", file->name);
    int32_t ranks = bpe->tokens.count;
    tokens_index(&bpe->tokens);
    code = check_ranks(bpe);
    if (code != ERROR_NONE)
        return code;
    bpe_begin_merges(bpe);
    if (bpe->first_lacking >= 0)
        return error_user("%s: byte 0x%02x has no token; a rank file has one for each byte", bpe->name,
                          (unsigned)bpe->first_lacking);
    code = bpe_add_stage(bpe, &pattern);
    if (code != ERROR_NONE)
        return code;
    set_merges(bpe, ranks);
    add_specials(bpe);
    tokens_index(&bpe->tokens);
    bpe->whole = true;
    bpe->begins = true;
    bpe->roles[BPE_BOS] = ranks;
    return ERROR_NONE;
}
