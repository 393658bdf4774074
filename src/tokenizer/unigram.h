/* The Unigram model: of all ways to divide a text into tokens, the one with the highest sum of scores. A character that
 * begins no token is unknown, at a score 10 below the lowest. Sums and the order of comparisons are those of
 * SentencePiece and of Hugging Face's tokenizers, so that equal sums and rounding give the same tokens. */
#ifndef TOKENIZER_UNIGRAM_H
#define TOKENIZER_UNIGRAM_H

#include <stdbool.h>
#include <stdint.h>

struct unigram;

/* Makes a model without tokens. `single`: sums are rounded to single precision, as in SentencePiece; else double. */
struct unigram *unigram_open(bool single);
/* Accepts NULL. */
void unigram_close(struct unigram *unigram);
/* Adds a token of at least one byte, valid UTF-8. */
void unigram_add(struct unigram *unigram, const char *text, int64_t bytes, int32_t id, double score);
/* Sets the score of unknown characters. */
void unigram_set_unknown(struct unigram *unigram, double score);

/* A token of the best division; id -1: an unknown character. */
struct unigram_token {
    int64_t begin;
    int32_t id;
};

/* The buffers of one thread, reused between calls; {0} is empty. */
struct unigram_scratch {
    struct unigram_node *nodes; /* [capacity] */
    struct unigram_token *tokens;
    int64_t capacity;
};

/* Divides text[bytes], valid UTF-8. Returns the tokens in their order, *count of them, in `scratch`. */
const struct unigram_token *unigram_apply(const struct unigram *unigram, struct unigram_scratch *scratch,
                                          const unsigned char *text, int64_t bytes, int64_t *count);
void unigram_scratch_free(struct unigram_scratch *scratch);

#endif
