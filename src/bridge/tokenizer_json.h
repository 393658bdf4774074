/* Makes tokenizer.json of the tokenizers library from a byte-level BPE tokenizer that was read from a rank file of
 * tiktoken. */
#ifndef BRIDGE_TOKENIZER_JSON_H
#define BRIDGE_TOKENIZER_JSON_H

#include <jansson.h>

struct bpe;

/* Returns tokenizer.json with the rank file's ids: vocabulary, merges in the order of ranks, the split pattern, special
 * tokens, and, if texts begin with BOS, a post-processor that adds it. The caller owns it. */
json_t *tokenizer_json(const struct bpe *bpe);

#endif
