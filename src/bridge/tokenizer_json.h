/* tokenizer.json of the tokenizers library, made of a byte-level BPE tokenizer that came as a rank file of tiktoken. */
#ifndef BRIDGE_TOKENIZER_JSON_H
#define BRIDGE_TOKENIZER_JSON_H

#include <jansson.h>

struct bpe;

/* Its ids are those of the rank file: vocabulary and merges in the order of ranks, the pattern, special tokens, and a
 * post-processor that puts BOS in front of a text. The caller owns it. */
json_t *tokenizer_json(const struct bpe *bpe);

#endif
