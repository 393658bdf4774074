/* One stage of a pre-tokenizer: cuts a text into pieces where a pattern matches. Patterns are PCRE2's; those of GPT-2,
 * Llama 3 and Qwen 2 are matched by hand, several times faster, with the same outcome. */
#ifndef TOKENIZER_SPLIT_H
#define TOKENIZER_SPLIT_H

#include <stdbool.h>
#include <stdint.h>

struct split;
struct split_room;

/* What becomes of matches and of what lies between them, as Hugging Face's tokenizers name it. */
enum split_behavior {
    SPLIT_REMOVED,              /* matches are left out */
    SPLIT_ISOLATED,             /* each is a piece */
    SPLIT_MERGED_WITH_PREVIOUS, /* a match ends the piece before it */
    SPLIT_MERGED_WITH_NEXT,     /* a match begins the piece after it */
    SPLIT_CONTIGUOUS,           /* matches that touch are one piece */
    SPLIT_BEHAVIORS
};

struct split_settings {
    const char *pattern;
    bool literal; /* the pattern is a text, no regular expression */
    enum split_behavior behavior;
    bool invert;       /* what matches and what does not change places */
    bool by_pcre2;     /* never by hand; for tests */
    const char *where; /* begins messages: file and member */
};

/* Shared by threads. ERROR_USER: the pattern is none, is not offered, or matches nothing at all somewhere. */
int split_open(struct split **split, const struct split_settings *settings);
/* NULL is fine. */
void split_close(struct split *split);

/* What one thread matches with. */
struct split_room *split_room_open(void);
/* NULL is fine. */
void split_room_close(struct split_room *room);

/* What is done with a piece; anything but ERROR_NONE ends the cutting. */
typedef int split_taker(void *context, const unsigned char *piece, int64_t bytes);

/* Hands the pieces of a text, which is valid UTF-8, to `take`, in order; no piece is empty. Returns what `take` does.
 * ERROR_USER: PCRE2 needs too much on this text. */
int split_run(const struct split *split, struct split_room *room, const unsigned char *text, int64_t bytes,
              split_taker *take, void *context);

#endif
