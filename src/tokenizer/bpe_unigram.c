/* Tokens of a text by the Unigram model. */
#include "base/range.h"
#include "tokenizer/bpe_private.h"

void bpe_begin_unigram(struct bpe *bpe)
{
    enum { UNKNOWN = 10 /* of both libraries */ };
    double least = bpe->scores[0];
    bpe->unigram = unigram_open(false);
    for (int32_t id = 0; id < bpe->tokens.count; id++) {
        const struct text_token *token = &bpe->tokens.tokens[id];
        least = MIN(least, bpe->scores[id]);
        if (token->bytes > 0 && (token->kinds & TOKEN_TEXT) && !(token->kinds & TOKEN_SPECIAL) && id != bpe->unknown)
            unigram_add(bpe->unigram, tokens_text(&bpe->tokens, id), token->bytes, id, bpe->scores[id]);
    }
    unigram_set_unknown(bpe->unigram, least - UNKNOWN);
}

int64_t bpe_unigram_apply(const struct bpe *bpe, struct unigram_scratch *scratch, const unsigned char *piece,
                          int64_t bytes, int32_t *ids)
{
    int64_t count, used = 0;
    const struct unigram_token *tokens = unigram_apply(bpe->unigram, scratch, piece, bytes, &count);
    for (int64_t i = 0, next; i < count; i = next) {
        next = i + 1;
        while (tokens[i].id < 0 && next < count && tokens[next].id < 0)
            next++;
        const int64_t end = next < count ? tokens[next].begin : bytes;
        if (tokens[i].id >= 0)
            ids[used++] = tokens[i].id;
        else
            used += bpe_put_unknown(bpe, piece + tokens[i].begin, end - tokens[i].begin, ids + used);
    }
    return used;
}
