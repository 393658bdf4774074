/* Tokenizer files of a Hugging Face folder: for ESM-2 those of transformers' EsmTokenizer (vocab.txt), for the others
 * tokenizer.json of the tokenizers library, one token a character, and the template BOS text EOS. */
#ifndef BRIDGE_TOKENIZER_FILES_H
#define BRIDGE_TOKENIZER_FILES_H

#include <stdbool.h>
#include <stdint.h>

struct tokenizer;

/* Writes the files. tokens: of the longest sequence, special tokens included. Local. Errors of draft_open and
 * draft_close. */
int tokenizer_files_write(const struct tokenizer *tokenizer, int64_t tokens, const char *folder);

/* Has the folder a tokenizer.json with this vocabulary? */
bool tokenizer_files_match(const struct tokenizer *tokenizer, const char *folder);

#endif
