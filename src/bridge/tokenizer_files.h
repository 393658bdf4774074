/* Writes the tokenizer files of a Hugging Face folder for a character tokenizer: vocab.txt if transformers has a
 * tokenizer class for the family, else tokenizer.json of the tokenizers library, with one token per character and a
 * template of BOS, text and, for masked models, EOS. */
#ifndef BRIDGE_TOKENIZER_FILES_H
#define BRIDGE_TOKENIZER_FILES_H

#include <stdbool.h>
#include <stdint.h>

struct tokenizer;

/* Writes the files. class: the family's tokenizer_class, NULL if it has none. tokens: length of the longest sequence,
 * special tokens included. Local. Errors of atomic_file_open and atomic_file_close. */
int tokenizer_files_write(const struct tokenizer *tokenizer, const char *class, int64_t tokens, const char *folder);

/* Returns whether the folder has a tokenizer.json with this vocabulary. */
bool tokenizer_files_match(const struct tokenizer *tokenizer, const char *folder);

#endif
