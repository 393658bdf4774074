/* Internals of an open BPE tokenizer: read by bpe_json.c or bpe_ranks.c, completed by bpe.c, used by bpe_encode.c. */
#ifndef TOKENIZER_BPE_PRIVATE_H
#define TOKENIZER_BPE_PRIVATE_H

#include "tokenizer/added.h"
#include "tokenizer/bert_normalizer.h"
#include "tokenizer/bpe.h"
#include "tokenizer/merges.h"
#include "tokenizer/splitter.h"
#include "tokenizer/tokens.h"

enum { BPE_MOST_STAGES = 16 };

/* How a piece becomes tokens. */
enum text_model {
    TEXT_BPE,
    TEXT_WORDPIECE, /* the longest token that begins the piece, then the longest one that continues it, ... */
    TEXT_WORDS      /* a piece is one token */
};

struct bpe {
    char *name; /* name of the file, for messages */
    enum text_model model;
    struct text_tokens tokens;
    int32_t byte_ids[256]; /* token of each byte; `unknown` if it has none */
    bool lacking[256];     /* the byte has no token */
    int first_lacking;     /* smallest byte without a token; -1: none */
    int32_t unknown;       /* id of the model's unk_token; -1: none, and text with such a byte is rejected */
    bool fuses_unknown;    /* adjacent bytes without tokens, within a piece, become one `unknown` */
    struct merges *merges;
    bool whole; /* a piece that is a token becomes that token, whatever the merges would make of it */
    bool nfc;   /* normalize text to NFC */
    bool bert;  /* normalize text as `normalizer` says */
    struct bert_normalizer normalizer;
    char *continuing;                       /* WordPiece: the prefix of tokens that continue a word; NULL: none */
    int64_t most_characters;                /* WordPiece: a longer word is one `unknown` */
    struct text_tokens texts;               /* WordPiece: the text that each id stands for, after other tokens */
    struct added *added, *added_normalized; /* found before and after normalization; NULL: none */
    struct text_splitter *stages[BPE_MOST_STAGES];
    int stage_count;
    bool byte_level;    /* ByteLevel of the pre-tokenizer was read: no stage may follow */
    int prefixed_stage; /* input of this stage gets a leading space if it has none; -1: no stage */
    int32_t roles[BPE_ROLES];
    bool begins, ends;
    uint64_t digest;
};

/* Sets byte_ids, lacking and first_lacking, and opens merges. Needs all tokens, indexed, and `unknown`. */
void bpe_begin_merges(struct bpe *bpe);
/* Appends a stage of the pre-tokenizer. ERROR_USER: too many stages, or an error of splitter_open. */
int bpe_add_stage(struct bpe *bpe, const struct splitter_settings *settings);

/* Appends the ids of a piece to ids[at most bytes], for the models other than BPE; returns their number. */
int64_t bpe_words_apply(const struct bpe *bpe, const unsigned char *piece, int64_t bytes, int32_t *ids);
/* Makes `texts`: tokens that continue a word without the prefix, others after a blank. */
void bpe_words_texts(struct bpe *bpe);

/* Read the file into *bpe, of which only the name and defaults (-1) are set. ERROR_USER. */
int bpe_read_json(struct bpe *bpe, const struct bpe_file *file);
int bpe_read_ranks(struct bpe *bpe, const struct bpe_file *file);
/* Sets roles, begins and ends from tokenizer_config.json. ERROR_USER. */
int bpe_read_config(struct bpe *bpe, const struct bpe_file *config);

#endif
