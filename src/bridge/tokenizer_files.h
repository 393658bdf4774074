/* Tokenizer files of a Hugging Face folder: vocab.txt where the family has a class of transformers for it, else
 * tokenizer.json of the tokenizers library, one token a character, and the template BOS text EOS. */
#ifndef BRIDGE_TOKENIZER_FILES_H
#define BRIDGE_TOKENIZER_FILES_H

#include <stdbool.h>
#include <stdint.h>

struct tokenizer;

/* Writes the files. class: the family's tokenizer_class, NULL where it has none; tokens: of the longest sequence,
 * special tokens included. Local. Errors of draft_open and draft_close. */
int tokenizer_files_write(const struct tokenizer *tokenizer, const char *class, int64_t tokens, const char *folder);

/* Has the folder a tokenizer.json with this vocabulary? */
bool tokenizer_files_match(const struct tokenizer *tokenizer, const char *folder);

#endif
