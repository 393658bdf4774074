/* The tokenizer files of a Hugging Face folder, for a tokenizer of text: its own, byte for byte, and what it lacks of
 * tokenizer.json, tokenizer_config.json and special_tokens_map.json, made of it. */
#ifndef BRIDGE_TEXT_FILES_H
#define BRIDGE_TEXT_FILES_H

#include <stdint.h>

struct tokenizer;

/* Writes them; the tokenizer is open. tokens: of the longest sequence, special tokens included. Local. Errors of
 * draft_open and draft_close. */
int text_files_write(const struct tokenizer *tokenizer, int64_t tokens, const char *folder);

#endif
