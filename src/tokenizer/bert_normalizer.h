/* BERT's normalization of text, as BertNormalizer of Hugging Face's tokenizers: clean_text, handle_chinese_chars,
 * strip_accents and lowercase, in this order. */
#ifndef TOKENIZER_BERT_NORMALIZER_H
#define TOKENIZER_BERT_NORMALIZER_H

#include <stdbool.h>
#include <stdint.h>

struct bert_normalizer {
    bool clean;   /* drop control characters, and make each kind of white space a blank */
    bool chinese; /* put blanks around CJK ideographs */
    bool strip;   /* decompose characters, and drop non-spacing marks */
    bool lower;
};

/* A buffer, reused between calls; {0} is empty. */
struct bert_text {
    unsigned char *text;
    int64_t used, capacity;
};

/* Normalizes `text`, valid UTF-8. Returns the result, *normalized bytes, in `out`, valid until the next call. */
const unsigned char *bert_normalize(const struct bert_normalizer *how, struct bert_text *out, const unsigned char *text,
                                    int64_t bytes, int64_t *normalized);
void bert_text_free(struct bert_text *text);

#endif
