/* Writes a Megatron data set (data/megatron_store.h) of known sizes, in bounded memory. The files are byte for byte
 * those of Megatron-LM's IndexedDatasetBuilder, with one document per sequence. Names of sequences are not stored. */
#ifndef PREPARE_MEGATRON_WRITER_H
#define PREPARE_MEGATRON_WRITER_H

#include "prepare/store_writer.h"
#include "tokenizer/tokenizer.h"

#include <stdbool.h>

/* Makes a writer of PREFIX.bin and PREFIX.idx. tokens: number of all tokens. eod: append the tokenizer's end token,
 * which `tokens` does not count, to each sequence. Tokens are u16 if the vocabulary is below 65500, else i32.
 * ERROR_USER: eod without an end token; from `end`, a sequence of 2^31 tokens or more. ERROR_ENVIRONMENT: the folder
 * cannot be written.
 *
 * Commit removes the old index first and renames the new one last: if the process ends at any point, there is either no
 * data set or a complete one. */
int megatron_writer_create(struct store_writer **writer, const char *prefix, const struct tokenizer *tokenizer,
                           bool eod, int64_t sequences, int64_t tokens);

#endif
