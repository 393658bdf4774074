/* Random data, for runs that need no data set, such as benchmarks: an endless stream of sequences. Lengths are
 * log-normal; tokens are uniform over ids that are not special. Sequences are cut into windows as those of a store are.
 *
 * A length is a function of (seed, sequence), a token of (seed, sequence, place in it). The stream consists of blocks
 * of RANDOM_BLOCK windows, so that any window can be found without those before its block. Each block begins with a new
 * sequence; windows of the block's last sequence that do not fit in the block are left out. */
#ifndef DATA_RANDOM_WINDOWS_H
#define DATA_RANDOM_WINDOWS_H

#include "data/windows.h"

enum { RANDOM_BLOCK = 256 };

struct random_windows_settings {
    const char *tokenizer; /* its special tokens are used */
    int64_t vocabulary;    /* ids are below it */
    int64_t median, mean;  /* of lengths, in tokens without specials; both 0: each sequence fills one window */
};

struct random_windows;

/* ERROR_USER: a median and a mean that no log-normal distribution has, or a vocabulary of special tokens only. */
int random_windows_check(const struct random_windows_settings *settings);

/* Settings and layout must have passed their checks. Not thread-safe: one thread at a time. */
struct random_windows *random_windows_create(const struct random_windows_settings *settings,
                                             const struct windows_layout *layout, uint64_t seed);
void random_windows_destroy(struct random_windows *random);

const struct window_source *random_windows_source(const struct random_windows *random);
/* A checksum of everything that determines the stream, in place of a store's checksum. */
uint64_t random_windows_checksum(const struct random_windows *random);

#endif
