/* Writes the tokenizer files of a Hugging Face folder for a text tokenizer: the files that it was read from, byte for
 * byte. If tokenizer.json, tokenizer_config.json or special_tokens_map.json is not among them, it is derived from the
 * tokenizer. */
#ifndef BRIDGE_TEXT_FILES_H
#define BRIDGE_TEXT_FILES_H

#include <stdint.h>

struct tokenizer;

/* Writes the files of an open tokenizer. tokens: length of the longest sequence, special tokens included. Local. Errors
 * of atomic_file_open and atomic_file_close. */
int text_files_write(const struct tokenizer *tokenizer, int64_t tokens, const char *folder);

#endif
