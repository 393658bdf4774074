/* Converts config.json of a Hugging Face folder to and from a deck's section `model`, by the rows of the family
 * (architecture/config_key.h). Values that transformers' or BioNeMo's classes allow and this program cannot compute are
 * errors that name the key; keys that do not affect the outputs of a trained model are ignored. */
#ifndef BRIDGE_CONFIG_H
#define BRIDGE_CONFIG_H

#include "bridge/dialect.h"
#include "deck/deck.h"
#include "architecture/settings.h"

struct model_ends;
struct tokenizer;

/* Fills deck->model from <folder>/config.json, all keys explicitly, and data.window and data.row_tokens from the
 * longest sequence that it claims (at most 8192 tokens). The rest of the deck is unchanged. Local. ERROR_USER: the file
 * is missing or damaged; a key's value has the wrong type or is not supported (the message has what is allowed); sizes
 * that no model can have. */
int config_read(struct deck *deck, const char *folder, enum checkpoint_dialect dialect);

/* Reads the end tokens of config.json, and of generation_config.json if it exists, in a folder that config_read has
 * read. Ids outside of the vocabulary are omitted with a warning. Local. ERROR_USER: a file is damaged; errors of
 * end_tokens_read. */
int config_ends(struct model_ends *ends, const char *folder, int64_t vocabulary);

/* Returns pad_token_id of a folder that config_read has read; -1: none. transformers does not train the embedding of
 * this token. Local. */
int64_t config_padding(const char *folder);

/* Writes padded_vocab_size of a folder in DIALECT_TE, the number of rows of the tensors with one row per token; -1 if
 * the key is absent, and the tensors' shapes decide. Local. ERROR_USER: it is not a number, or less than the
 * vocabulary. */
int config_token_rows(int64_t *rows, const char *folder, int64_t vocabulary);

/* Returns the class of the dialect for the model and its head; NULL: there is none. */
const char *config_architecture(const struct model_settings *settings, enum checkpoint_dialect dialect);

/* Checks that a config.json can express the model. Local. ERROR_USER: the family's classes do not have a setting of the
 * model; the message names the deck key. */
int config_check(const struct model_settings *settings, enum checkpoint_dialect dialect);

/* Writes <folder>/config.json for a model that config_check accepts; in DIALECT_TE with auto_map, and without rows
 * beyond the vocabulary. Also writes generation_config.json if the family has end tokens (CONFIG_ENDS) and either the
 * tokenizer or the generation's end tokens are known. positions: the longest sequence claimed. tokenizer: for the
 * special ids; NULL: unknown. ends: the imported model's end tokens, if they differ from the tokenizer's. labels: the
 * names of a fine-tuning head's classes or numbers, separated by commas; "": LABEL_0, ... dtype: "float32" or
 * "bfloat16". Local. Errors of atomic_file_open and atomic_file_close. */
int config_write(const struct model_settings *settings, enum checkpoint_dialect dialect, int64_t positions,
                 const struct tokenizer *tokenizer, const struct model_ends *ends, const char *labels,
                 const char *dtype, const char *folder);

#endif
