/* One stage of a pre-tokenizer: cuts a text into pieces where a pattern matches. Patterns are PCRE2's; those of GPT-2,
 * Llama 3 and Qwen 2 are matched by hand, several times faster, with the same outcome. */
#ifndef TOKENIZER_SPLITTER_H
#define TOKENIZER_SPLITTER_H

#include <stdbool.h>
#include <stdint.h>

struct text_splitter;
struct splitter_room;

/* What becomes of matches and of what lies between them, as Hugging Face's tokenizers name it. */
enum splitter_behavior {
    SPLIT_REMOVED,              /* matches are left out */
    SPLIT_ISOLATED,             /* each is a piece */
    SPLIT_MERGED_WITH_PREVIOUS, /* a match ends the piece before it */
    SPLIT_MERGED_WITH_NEXT,     /* a match begins the piece after it */
    SPLIT_CONTIGUOUS,           /* matches that touch are one piece */
    SPLIT_BEHAVIORS
};

struct splitter_settings {
    const char *pattern;
    bool literal; /* the pattern is a text, no regular expression */
    enum splitter_behavior behavior;
    bool invert;       /* what matches and what does not change places */
    bool by_pcre2;     /* never by hand; for tests */
    const char *where; /* begins messages: file and member */
};

/* Shared by threads. ERROR_USER: the pattern is none, is not offered, or matches nothing at all somewhere. */
int splitter_open(struct text_splitter **split, const struct splitter_settings *settings);
/* NULL is fine. */
void splitter_close(struct text_splitter *split);

/* What one thread matches with. */
struct splitter_room *splitter_room_open(void);
/* NULL is fine. */
void splitter_room_close(struct splitter_room *room);

/* What is done with a piece; anything but ERROR_NONE ends the cutting. */
typedef int splitter_taker(void *context, const unsigned char *piece, int64_t bytes);

/* Hands the pieces of a text, which is valid UTF-8, to `take`, in order; no piece is empty. Returns what `take` does.
 * ERROR_USER: PCRE2 needs too much on this text. */
int splitter_run(const struct text_splitter *split, struct splitter_room *room, const unsigned char *text,
                 int64_t bytes, splitter_taker *take, void *context);

#endif
