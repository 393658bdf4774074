/* SentencePiece's normalization of a text, as the NormalizerSpec of a model says. */
#ifndef TOKENIZER_SPM_NORMALIZER_H
#define TOKENIZER_SPM_NORMALIZER_H

#include "tokenizer/charsmap.h"
#include "tokenizer/text_buffer.h"
#include "tokenizer/token_trie.h"

#include <stdbool.h>
#include <stdint.h>

/* U+2581, which stands for a blank in vocabularies of SentencePiece. */
#define SPM_BLANK "\xe2\x96\x81"

struct spm_normalizer {
    struct charsmap *charsmap;        /* NULL: characters stay as they are. Owned by the normalizer's step */
    const struct token_trie *symbols; /* user-defined pieces, whose characters stay as they are; NULL: none */
    bool prefix;                      /* add_dummy_prefix: a blank before a text that is not empty */
    bool single;                      /* remove_extra_whitespaces: no blanks at the ends, no two in a row */
    bool escape;                      /* escape_whitespaces: blanks become U+2581 */
};

/* Appends the normalized text, valid UTF-8, to `out`. */
void spm_normalize(const struct spm_normalizer *how, struct text_buffer *out, const unsigned char *text, int64_t bytes);

#endif
