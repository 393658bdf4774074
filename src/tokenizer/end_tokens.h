/* The tokens that end a text which a model makes. A model may have several: Llama 3.1's chat models end a text, a turn
 * and a call of a tool with a token each. */
#ifndef TOKENIZER_END_TOKENS_H
#define TOKENIZER_END_TOKENS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

enum { END_TOKENS_MOST = 64 };

/* {0} holds none. */
struct end_tokens {
    int count;
    int32_t ids[END_TOKENS_MOST]; /* [count] */
};

/* Those of a Hugging Face model's files. */
struct model_ends {
    struct end_tokens config;     /* config.json */
    struct end_tokens generation; /* generation_config.json */
};

/* Reads eos_token_id of such a file's object: an id, a list of ids, or none where the key is absent or null. Ids
 * outside of the vocabulary, which never come, are left out: *outside of them. `file` is for messages. ERROR_USER: the
 * value is something else, or lists more than END_TOKENS_MOST ids. */
int end_tokens_read(struct end_tokens *ends, const json_t *object, const char *file, int64_t vocabulary, int *outside);

#endif
