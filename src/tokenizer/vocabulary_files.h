/* Tokenizers whose vocabulary is in files of its own, as transformers' slow classes have it: vocab.json with merges.txt
 * (byte-level BPE: GPT-2, RoBERTa, Qwen 2). They are turned into a tokenizer.json with the same ids, so that all other
 * code knows one form. */
#ifndef TOKENIZER_VOCABULARY_FILES_H
#define TOKENIZER_VOCABULARY_FILES_H

#include "tokenizer/bundle.h"

/* Puts a tokenizer.json, made from the bundle's other files, into a bundle that has none; does nothing if it lacks
 * vocab.json or merges.txt. `where` is the folder, for messages. tokenizer_class and add_prefix_space of
 * tokenizer_config.json choose the pattern; special and added tokens are those of tokenizer_config.json,
 * special_tokens_map.json and added_tokens.json. Local. ERROR_USER: a file is damaged; the message names file and line
 * or member. */
int vocabulary_files_complete(struct tokenizer_bundle *bundle, const char *where);

#endif
