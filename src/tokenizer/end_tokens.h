/* The tokens that end generation. A model may have several: Llama 3.1's chat models end a text, a turn and a tool call
 * with different tokens. */
#ifndef TOKENIZER_END_TOKENS_H
#define TOKENIZER_END_TOKENS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

enum { END_TOKENS_MOST = 64 };

/* A set of end tokens; {0} is empty. */
struct end_tokens {
    int count;
    int32_t ids[END_TOKENS_MOST]; /* [count] */
};

/* The end tokens of a Hugging Face model's files. */
struct model_ends {
    struct end_tokens config;     /* config.json */
    struct end_tokens generation; /* generation_config.json */
};

/* Reads eos_token_id of `object`, the content of such a file: an id, a list of ids, or none if the key is absent or
 * null. Ids outside the vocabulary, which cannot occur, are dropped, and counted in *outside. `file` is its name, for
 * messages. ERROR_USER: the value is of another type, or has more than END_TOKENS_MOST ids. */
int end_tokens_read(struct end_tokens *ends, const json_t *object, const char *file, int64_t vocabulary, int *outside);

#endif
