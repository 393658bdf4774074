/* config.json of a Hugging Face folder, to and from the model section of a deck, by the rows of the family
 * (architecture/config_key.h). Values that the classes allow and this program cannot compute are refused by name; keys
 * that change no output of a trained model are ignored. */
#ifndef BRIDGE_CONFIG_H
#define BRIDGE_CONFIG_H

#include "bridge/dialect.h"
#include "deck/deck.h"
#include "architecture/settings.h"

struct model_ends;
struct tokenizer;

/* Fills deck->model from <folder>/config.json, all keys explicit, and data.window and data.row_tokens from the longest
 * sequence it claims (at most 8192 tokens). The rest of the deck stays. Local. ERROR_USER: a missing or damaged file;
 * a key whose value is not supported or of the wrong type, with what is allowed; sizes that no model can have. */
int config_read(struct deck *deck, const char *folder, enum checkpoint_dialect dialect);

/* Of a folder that config_read has read: the end tokens of config.json and of generation_config.json, where that is
 * there. Ids outside of the vocabulary are left out with a warning. ERROR_USER: a damaged file; end_tokens_read's. */
int config_ends(struct model_ends *ends, const char *folder, int64_t vocabulary);

/* Of a folder that config_read has read: its pad_token_id, whose embedding transformers does not train; -1: none. */
int64_t config_padding(const char *folder);

/* Of a folder in DIALECT_TE: *rows of the tensors that have one for each token, by its padded_vocab_size; -1 where that
 * key is absent, and what the tensors have is right. ERROR_USER: a number below the vocabulary, or none. Local. */
int config_token_rows(int64_t *rows, const char *folder, int64_t vocabulary);

/* Can a config.json say it? ERROR_USER: a setting of the model that the family's classes there do not have, named as a
 * deck's key. Local. */
int config_check(const struct model_settings *settings, enum checkpoint_dialect dialect);

/* Writes <folder>/config.json for a model that config_check accepts, in DIALECT_TE with auto_map and without rows
 * beyond the vocabulary; and generation_config.json, where the family has end tokens (CONFIG_ENDS) and they or the
 * tokenizer are known. positions: the longest sequence claimed; dtype: "float32" or "bfloat16"; tokenizer: for the
 * special ids; NULL = unknown; ends: the end tokens that the model came with, where they are not the tokenizer's.
 * Local. Errors of draft_open and draft_close. */
int config_write(const struct model_settings *settings, enum checkpoint_dialect dialect, int64_t positions,
                 const struct tokenizer *tokenizer, const struct model_ends *ends, const char *dtype,
                 const char *folder);

#endif
