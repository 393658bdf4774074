/* Group /tokenizer of stores and checkpoints: the files of a tokenizer of text, each a dataset u8 [bytes] of the file's
 * name (tokenizer/bundle.h), and attributes bos, eos, pad, unk (ids, -1 where there is none). What has a bundled
 * tokenizer has no such group. The tokenizer's name and vocabulary are attributes of the store or of /meta. */
#ifndef DATA_TOKENIZER_MEMBER_H
#define DATA_TOKENIZER_MEMBER_H

#include "tokenizer/tokenizer.h"

#include <hdf5.h>

/* Writes it into an open file; nothing for a bundled tokenizer. False when HDF5 fails. */
bool tokenizer_member_write(hid_t file, const struct tokenizer *tokenizer);

/* Reads the special ids, without the files: what windows need. False: no such group, or ids that the vocabulary has
 * not. */
bool tokenizer_member_describe(hid_t file, struct tokenizer *tokenizer);

/* Opens the tokenizer that a file at `path` keeps, or the bundled one of that name. Close it. ERROR_USER: no such
 * file, neither; bpe_open's; a group of another tokenizer than `name`. */
int tokenizer_member_open(const struct tokenizer **tokenizer, const char *path, const char *name);

#endif
