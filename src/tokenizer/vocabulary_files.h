/* Tokenizers whose vocabulary is in files of its own, as transformers' slow classes have it: vocab.json with merges.txt
 * (byte-level BPE: GPT-2, RoBERTa, Qwen 2), and vocab.txt (WordPiece of BERT; tables of ESM, such as k-mers). They are
 * turned into a tokenizer.json with the same ids, so that all other code knows one form. */
#ifndef TOKENIZER_VOCABULARY_FILES_H
#define TOKENIZER_VOCABULARY_FILES_H

#include "tokenizer/bundle.h"

/* Puts a tokenizer.json, made from the bundle's other files, into a bundle that has none; does nothing if it has
 * neither vocab.json with merges.txt nor vocab.txt. `where` is the folder, for messages. tokenizer_config.json chooses
 * the pattern and the normalizer (tokenizer_class, add_prefix_space, do_lower_case, ...); special and added tokens are
 * those of tokenizer_config.json, special_tokens_map.json and added_tokens.json, and those that the class has unless
 * they say otherwise, which are added to the bundle's tokenizer_config.json. Local. ERROR_USER: a file is damaged; the
 * message names file and line or member. */
int vocabulary_files_complete(struct tokenizer_bundle *bundle, const char *where);

#endif
