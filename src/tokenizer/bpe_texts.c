/* The text that each id stands for, where it is not that of the token. */
#include "base/memory.h"
#include "tokenizer/bpe_private.h"

#include <stdlib.h>
#include <string.h>

static void make_word(struct bpe *bpe, int32_t id, const char *text, int32_t bytes)
{
    const int64_t prefix = bpe->continuing != NULL ? (int64_t)strlen(bpe->continuing) : 0;
    const bool continues = prefix > 0 && bytes > prefix && memcmp(text, bpe->continuing, (size_t)prefix) == 0;
    char *apart = continues ? memory_format("%.*s", (int)(bytes - prefix), text + prefix)
                            : memory_format(" %.*s", (int)bytes, text);
    tokens_add(&bpe->texts, id, apart, (int64_t)strlen(apart), TOKEN_TEXT);
    free(apart);
}

/* Makes the text of a token in which U+2581 stands for a blank. */
static void make_blanks(struct bpe *bpe, int32_t id, const char *text, int32_t bytes)
{
    enum { MARK = sizeof SPM_BLANK - 1 };
    char out[TOKENS_BYTES_MOST];
    int64_t used = 0;
    for (int32_t at = 0; at < bytes;) {
        const bool blank = at + MARK <= bytes && memcmp(text + at, SPM_BLANK, MARK) == 0;
        out[used++] = blank ? ' ' : text[at];
        at += blank ? MARK : 1;
    }
    if (used < bytes)
        tokens_add(&bpe->texts, id, out, used, TOKEN_TEXT);
}

void bpe_make_texts(struct bpe *bpe)
{
    const bool characters = bpe->model == TEXT_CHARACTERS || bpe->model == TEXT_UNIGRAM;
    const bool blanks = characters && (bpe->metaspace_stage >= 0 || normalizer_replaces(&bpe->normalizer));
    for (int32_t id = 0; id < bpe->tokens.count; id++) {
        const struct text_token *token = &bpe->tokens.tokens[id];
        if (bpe->model == TEXT_WORDPIECE && token->kinds != 0)
            make_word(bpe, id, tokens_text(&bpe->tokens, id), token->bytes);
        else if (blanks && (token->kinds & TOKEN_TEXT))
            make_blanks(bpe, id, tokens_text(&bpe->tokens, id), token->bytes);
    }
    for (int byte = 0; byte < 256; byte++)
        if (bpe->falls_back)
            tokens_add(&bpe->texts, bpe->byte_ids[byte], &(char){(char)byte}, 1, TOKEN_TEXT);
}
