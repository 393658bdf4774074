/* What an open BPE tokenizer is: read by bpe_json.c or bpe_ranks.c, completed by bpe.c, used by bpe_encode.c. */
#ifndef TOKENIZER_BPE_PRIVATE_H
#define TOKENIZER_BPE_PRIVATE_H

#include "tokenizer/added.h"
#include "tokenizer/bpe.h"
#include "tokenizer/merges.h"
#include "tokenizer/splitter.h"
#include "tokenizer/tokens.h"

enum { BPE_MOST_STAGES = 16 };

struct bpe {
    char *name; /* of the file, for messages */
    struct text_tokens tokens;
    int32_t byte_ids[256]; /* of a byte without a token `unknown` */
    bool lacking[256];     /* the byte has no token */
    int first_lacking;     /* the smallest byte without a token; -1: every byte has one */
    int32_t unknown;       /* the model's unk_token; -1: none, a text with such a byte is refused */
    bool fuses_unknown;    /* adjacent bytes of a piece that have no token are one `unknown` */
    struct merges *merges;
    bool whole;                             /* a piece that is a token is that token, whatever merges make of it */
    bool nfc;                               /* text is normalized */
    struct added *added, *added_normalized; /* looked for before and after that; NULL: none */
    struct text_splitter *stages[BPE_MOST_STAGES];
    int stage_count;
    bool byte_level;    /* the pre-tokenizer's ByteLevel was read: no stage may follow it */
    int prefixed_stage; /* what comes to this stage gets a space before it, if it has none; -1: never */
    int32_t roles[BPE_ROLES];
    bool begins, ends;
    uint64_t digest;
};

/* Sets byte_ids and what lacks, and opens merges, once all tokens are there and indexed, and `unknown` is known. */
void bpe_begin_merges(struct bpe *bpe);
/* Another stage of the pre-tokenizer. ERROR_USER: too many, or what splitter_open says. */
int bpe_add_stage(struct bpe *bpe, const struct splitter_settings *settings);

/* Read the file into *bpe, which has a name, no roles and nothing else yet. ERROR_USER. */
int bpe_read_json(struct bpe *bpe, const struct bpe_file *file);
int bpe_read_ranks(struct bpe *bpe, const struct bpe_file *file);
/* Sets roles, begins and ends by tokenizer_config.json. ERROR_USER. */
int bpe_read_config(struct bpe *bpe, const struct bpe_file *config);

#endif
