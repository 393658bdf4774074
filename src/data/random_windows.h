/* Random data, for runs that need no data set, such as benchmarks: an endless stream of sequences whose lengths are
 * log-normal and whose tokens are uniform over what is no special token, cut into windows as a store's are.
 *
 * A length is a function of (seed, sequence), a token of (seed, sequence, place in it). That any window can be found
 * without those before it, the stream is made of blocks of RANDOM_BLOCK windows, each of which begins with a sequence
 * of its own: what the last sequence of a block has beyond it is left out. */
#ifndef DATA_RANDOM_WINDOWS_H
#define DATA_RANDOM_WINDOWS_H

#include "data/windows.h"

enum { RANDOM_BLOCK = 256 };

struct random_windows_settings {
    const char *tokenizer; /* its special tokens are the windows' */
    int64_t vocabulary;    /* ids are below it */
    int64_t median, mean;  /* of lengths, in tokens without specials; both 0: each sequence fills one window */
};

struct random_windows;

/* ERROR_USER: lengths that no distribution has, a vocabulary of special tokens alone. */
int random_windows_check(const struct random_windows_settings *settings);

/* Settings and layout must have passed their checks. One thread at a time may use it. */
struct random_windows *random_windows_create(const struct random_windows_settings *settings,
                                             const struct windows_layout *layout, uint64_t seed);
void random_windows_destroy(struct random_windows *random);

const struct window_source *random_windows_source(const struct random_windows *random);
/* Of all that decides about the stream, in place of a store's. */
uint64_t random_windows_checksum(const struct random_windows *random);

#endif
