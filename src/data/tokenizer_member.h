/* Group /tokenizer of stores and checkpoints: the files of a text tokenizer, each as a dataset u8 [bytes] with the
 * file's name (tokenizer/bundle.h), and attributes bos, eos, pad, unk (ids, -1 if none). Stores and checkpoints with a
 * bundled tokenizer do not have this group. The tokenizer's name and vocabulary are attributes of the store or of
 * /meta. */
#ifndef DATA_TOKENIZER_MEMBER_H
#define DATA_TOKENIZER_MEMBER_H

#include "tokenizer/tokenizer.h"

#include <hdf5.h>

/* Writes the group into an open file; nothing for a bundled tokenizer. Returns false if HDF5 fails. */
bool tokenizer_member_write(hid_t file, const struct tokenizer *tokenizer);

/* Reads the special ids, which windows need, but not the tokenizer files. Returns false if the group is missing or an
 * id is outside the vocabulary. */
bool tokenizer_member_describe(hid_t file, struct tokenizer *tokenizer);

/* Opens the bundled tokenizer `name`, or else the tokenizer in the file at `path`. The caller closes it. ERROR_USER: no
 * such file, no tokenizer in it, an error of bpe_open, or a tokenizer of another name. */
int tokenizer_member_open(const struct tokenizer **tokenizer, const char *path, const char *name);

#endif
