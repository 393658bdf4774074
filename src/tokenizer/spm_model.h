/* A model file of SentencePiece: a ModelProto in the wire format of Protocol Buffers. Source: sentencepiece_model.proto
 * of sentencepiece 0.2. */
#ifndef TOKENIZER_SPM_MODEL_H
#define TOKENIZER_SPM_MODEL_H

#include <stdbool.h>
#include <stdint.h>

struct bpe_file;

enum spm_piece_type { SPM_NORMAL = 1, SPM_UNKNOWN, SPM_CONTROL, SPM_USER_DEFINED, SPM_UNUSED, SPM_BYTE };

struct spm_piece {
    const char *text; /* [bytes], in the file */
    int64_t bytes;
    float score;
    enum spm_piece_type type;
};

enum spm_kind { SPM_UNIGRAM = 1, SPM_BPE, SPM_WORD, SPM_CHAR };

struct spm_model {
    struct spm_piece *pieces; /* [count] by id; owned */
    int64_t count, capacity;
    enum spm_kind kind;
    bool falls_back;       /* byte_fallback */
    bool suffix;           /* treat_whitespace_as_suffix */
    int32_t bos, eos, pad; /* ids; -1: none */
    const void *charsmap;  /* [charsmap_bytes], in the file; NULL: none */
    int64_t charsmap_bytes;
    bool prefix, single, escape; /* add_dummy_prefix, remove_extra_whitespaces, escape_whitespaces */
};

/* Reads a model, which points into the file. Call spm_model_free also after an error. ERROR_USER: the file is damaged.
 */
int spm_model_read(struct spm_model *model, const struct bpe_file *file);
void spm_model_free(struct spm_model *model);

#endif
