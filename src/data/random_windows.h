/* Random data, for runs without a data set, such as benchmarks: an endless stream of sequences. Lengths are log-normal;
 * tokens are uniform over ids that are not special. Sequences are split into windows like those of a store.
 *
 * A length is a function of (seed, sequence), a token of (seed, sequence, index in the sequence). The stream consists
 * of blocks of RANDOM_BLOCK windows, so that any window can be computed without those before its block. Each block
 * begins with a new sequence; windows of the block's last sequence that do not fit in the block are dropped. */
#ifndef DATA_RANDOM_WINDOWS_H
#define DATA_RANDOM_WINDOWS_H

#include "data/windows.h"

enum { RANDOM_BLOCK = 256 };

struct random_windows_settings {
    const char *tokenizer; /* name of a tokenizer, for its special tokens */
    int64_t vocabulary;    /* ids are below `vocabulary` */
    int64_t median, mean;  /* of lengths, in tokens without special tokens; both 0: each sequence fills one window */
};

struct random_windows;

/* Checks the settings. ERROR_USER: no log-normal distribution has this median and mean, or the vocabulary has only
 * special tokens. */
int random_windows_check(const struct random_windows_settings *settings);

/* Makes the stream. settings must have passed random_windows_check, layout windows_check_layout. Not thread-safe: one
 * thread at a time. */
struct random_windows *random_windows_create(const struct random_windows_settings *settings,
                                             const struct windows_layout *layout, uint64_t seed);
void random_windows_destroy(struct random_windows *random);

const struct window_source *random_windows_source(const struct random_windows *random);
/* Returns a checksum of everything that determines the stream, in place of a store's checksum. */
uint64_t random_windows_checksum(const struct random_windows *random);

#endif
