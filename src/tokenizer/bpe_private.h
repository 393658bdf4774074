/* Internals of an open BPE tokenizer: read by bpe_json.c or bpe_ranks.c, completed by bpe.c, used by bpe_encode.c. */
#ifndef TOKENIZER_BPE_PRIVATE_H
#define TOKENIZER_BPE_PRIVATE_H

#include "tokenizer/added.h"
#include "tokenizer/bpe.h"
#include "tokenizer/merges.h"
#include "tokenizer/text_normalizer.h"
#include "tokenizer/splitter.h"
#include "tokenizer/token_trie.h"
#include "tokenizer/tokens.h"
#include "tokenizer/unigram.h"

enum { BPE_MOST_STAGES = 16 };

/* How a piece becomes tokens. */
enum text_model {
    TEXT_BPE,        /* merges of bytes */
    TEXT_CHARACTERS, /* merges of characters */
    TEXT_UNIGRAM,    /* the tokens with the highest sum of scores */
    TEXT_WORDPIECE,  /* the longest token that begins the piece, then the longest one that continues it, ... */
    TEXT_WORDS       /* a piece is one token */
};

/* Before which pieces Metaspace puts U+2581, if they do not begin with it. */
enum metaspace_prefix { METASPACE_NEVER, METASPACE_FIRST /* of the text */, METASPACE_ALWAYS };

struct bpe {
    char *name; /* name of the file, for messages */
    enum text_model model;
    struct text_tokens tokens;
    int32_t byte_ids[256]; /* token of each byte; `unknown` if it has none */
    bool lacking[256];     /* the byte has no token */
    int first_lacking;     /* smallest byte without a token; -1: none */
    int32_t unknown;       /* id of the model's unk_token; -1: none, and text with such a byte is rejected */
    bool fuses_unknown;    /* adjacent bytes or characters without tokens, within a piece, become one `unknown` */
    bool falls_back;       /* a character without a token becomes the TOKEN_BYTEs of its bytes */
    struct merges *merges;
    int32_t *character_ids;     /* merges of characters: [UTF8_CODE_POINTS] symbol of each; -1: none */
    struct token_trie *symbols; /* merges of characters: tokens that do not merge with others; NULL: none. Owned */
    double *scores;             /* Unigram: of each token */
    struct unigram *unigram;    /* NULL for other models */
    bool whole;                 /* a piece that is a token becomes that token, whatever the merges would make of it */
    struct text_normalizer normalizer;
    char *continuing;                       /* WordPiece: the prefix of tokens that continue a word; NULL: none */
    int64_t most_characters;                /* WordPiece: a longer word is one `unknown` */
    struct text_tokens texts;               /* the text that each id stands for, where it is not that of the token */
    struct added *added, *added_normalized; /* found before and after normalization; NULL: none */
    struct text_splitter *stages[BPE_MOST_STAGES];
    int stage_count;
    bool byte_level;     /* ByteLevel of the pre-tokenizer was read: no stage may follow */
    int prefixed_stage;  /* input of this stage gets a leading space if it has none; -1: no stage */
    int metaspace_stage; /* blanks of the input of this stage become U+2581; -1: no stage */
    enum metaspace_prefix metaspace_prefix;
    int32_t roles[BPE_ROLES];
    bool begins, ends;
    uint64_t digest;
};

/* Sets byte_ids, lacking and first_lacking, and opens merges. Needs all tokens, indexed, and `unknown`. */
void bpe_begin_merges(struct bpe *bpe);
/* Appends a stage of the pre-tokenizer. ERROR_USER: too many stages, or an error of splitter_open. */
int bpe_add_stage(struct bpe *bpe, const struct splitter_settings *settings);

/* Append the ids of a piece to ids[at most bytes], for each kind of model; return their number. Characters: -1 if there
 * is a character without a token and no `unknown`, and then sets *lacking to its place. */
int64_t bpe_words_apply(const struct bpe *bpe, const unsigned char *piece, int64_t bytes, int32_t *ids);
int64_t bpe_unigram_apply(const struct bpe *bpe, struct unigram_scratch *scratch, const unsigned char *piece,
                          int64_t bytes, int32_t *ids);
int64_t bpe_characters_apply(const struct bpe *bpe, const unsigned char *piece, int64_t bytes, int32_t *ids,
                             const unsigned char **lacking);

/* Finds the tokens <0x00> to <0xFF> and makes them TOKEN_BYTE; sets byte_ids. Returns their number. Needs the tokens,
 * indexed, and `unknown`. */
int bpe_find_bytes(struct bpe *bpe);
/* Opens merges of characters, and sets the symbols of characters that are tokens. Needs all tokens, indexed. */
void bpe_begin_characters(struct bpe *bpe);
/* Opens the Unigram model: tokens of text, but not special ones and `unknown`. Needs all tokens, and `scores`. */
void bpe_begin_unigram(struct bpe *bpe);
/* If no token has U+2581 after another character, a text may be split before each, without effect on its tokens: adds
 * the stage that does so, which lets the cache of words work. Needs the vocabulary. ERROR_USER. */
int bpe_split_words(struct bpe *bpe);
/* The symbol of a character without a token, which merges may have; and that of a token that does not merge. */
enum { BPE_CHARACTER_SYMBOLS = TOKENS_MOST, BPE_WHOLE_SYMBOLS = 2 * TOKENS_MOST };
/* Appends the ids of an unknown text: those of its bytes, or one `unknown`. Returns their number. */
int64_t bpe_put_unknown(const struct bpe *bpe, const unsigned char *text, int64_t bytes, int32_t *ids);

/* Makes `texts`. WordPiece: tokens that continue a word without the prefix, others after a blank. Characters and
 * Unigram: tokens with blanks for U+2581, and bytes. */
void bpe_make_texts(struct bpe *bpe);

/* Read the file into *bpe, of which only the name and defaults (-1) are set. ERROR_USER. */
int bpe_read_json(struct bpe *bpe, const struct bpe_file *file);
int bpe_read_ranks(struct bpe *bpe, const struct bpe_file *file);
int bpe_read_spm(struct bpe *bpe, const struct bpe_file *file);
/* Sets roles, begins and ends from tokenizer_config.json. ERROR_USER. */
int bpe_read_config(struct bpe *bpe, const struct bpe_file *config);

#endif
