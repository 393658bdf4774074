/* Writes the tokenizer files of a Hugging Face folder for a character tokenizer: vocab.txt if transformers has a
 * class for this tokenizer, else tokenizer.json of the tokenizers library, with one token per character and a template
 * of BOS, text and, for masked models, EOS. */
#ifndef BRIDGE_TOKENIZER_FILES_H
#define BRIDGE_TOKENIZER_FILES_H

#include <stdbool.h>
#include <stdint.h>

struct tokenizer;

/* Properties of the model that the files state. */
struct tokenizer_files {
    const char *class; /* transformers' class of this tokenizer; NULL: none */
    bool ends;         /* the model's windows end with EOS: it is masked */
    int64_t tokens;    /* length of the longest sequence, special tokens included */
};

/* Writes the files. Local. Errors of atomic_file_open and atomic_file_close. */
int tokenizer_files_write(const struct tokenizer *tokenizer, const struct tokenizer_files *of, const char *folder);

/* Returns whether the folder has a tokenizer.json with this vocabulary. */
bool tokenizer_files_match(const struct tokenizer *tokenizer, const char *folder);

#endif
