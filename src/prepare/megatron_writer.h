/* Writes a Megatron data set (data/megatron_store.h) whose sizes are known beforehand, in bounded memory: byte for byte
 * what Megatron-LM's IndexedDatasetBuilder writes of the same sequences, each of which is a document. Their names are
 * not kept. */
#ifndef PREPARE_MEGATRON_WRITER_H
#define PREPARE_MEGATRON_WRITER_H

#include "prepare/store_writer.h"
#include "tokenizer/tokenizer.h"

#include <stdbool.h>

/* Writes PREFIX.bin and PREFIX.idx. eod: the tokenizer's end token, which is not counted in `tokens`, behind each
 * sequence. Tokens are u16 where the vocabulary is below 65500, else i32. User errors: --append-eod without an end
 * token; at `end`, a sequence of 2^31 tokens or more. Environment errors: the folder cannot be written.
 *
 * At commit the old index goes first and the new one comes last: whenever the process ends, there is no data set, or
 * one that is whole. */
int megatron_writer_create(struct store_writer **writer, const char *prefix, const struct tokenizer *tokenizer,
                           bool eod, int64_t sequences, int64_t tokens);

#endif
