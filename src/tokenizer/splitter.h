/* One stage of a pre-tokenizer: splits a text into pieces at the matches of a pattern. Patterns are matched by PCRE2;
 * those of GPT-2, Llama 3 and Qwen 2 by hand-written code with the same results, several times faster. */
#ifndef TOKENIZER_SPLITTER_H
#define TOKENIZER_SPLITTER_H

#include <stdbool.h>
#include <stdint.h>

struct text_splitter;
struct splitter_scratch;

/* How matches and the text between them become pieces, with the names of Hugging Face's tokenizers. */
enum splitter_behavior {
    SPLIT_REMOVED,              /* matches are dropped */
    SPLIT_ISOLATED,             /* each match is a piece */
    SPLIT_MERGED_WITH_PREVIOUS, /* a match ends the previous piece */
    SPLIT_MERGED_WITH_NEXT,     /* a match begins the next piece */
    SPLIT_CONTIGUOUS,           /* adjacent matches are one piece */
    SPLIT_BEHAVIORS
};

struct splitter_settings {
    const char *pattern;
    bool literal; /* the pattern is literal text, not a regular expression */
    enum splitter_behavior behavior;
    bool invert;       /* exchange matches and the text between them */
    bool by_pcre2;     /* do not use hand-written code; for tests */
    const char *where; /* beginning of messages: file and member */
};

/* Makes a splitter, which threads may share. ERROR_USER: the pattern is invalid, unsupported, or can match the empty
 * string. */
int splitter_open(struct text_splitter **split, const struct splitter_settings *settings);
/* Accepts NULL. */
void splitter_close(struct text_splitter *split);

/* Allocates the match buffers of one thread. */
struct splitter_scratch *splitter_scratch_open(void);
/* Accepts NULL. */
void splitter_scratch_close(struct splitter_scratch *scratch);

/* Receives a piece; any result but ERROR_NONE ends the splitting. */
typedef int splitter_taker(void *context, const unsigned char *piece, int64_t bytes);

/* Passes the pieces of a text, valid UTF-8, to `take`, in order; no piece is empty. Returns the code of `take`.
 * ERROR_USER: PCRE2 exceeds its limits on this text. */
int splitter_run(const struct text_splitter *split, struct splitter_scratch *scratch, const unsigned char *text,
                 int64_t bytes, splitter_taker *take, void *context);

#endif
