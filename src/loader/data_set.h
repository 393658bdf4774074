/* A data set, as an item of data.train names it: a token store (data/token_store.h) or a Megatron data set
 * (data/megatron_store.h), with its windows. */
#ifndef LOADER_DATA_SET_H
#define LOADER_DATA_SET_H

#include "comm/comm.h"
#include "data/megatron_windows.h"
#include "data/token_store.h"
#include "data/windows.h"

/* Settings that the files of a Megatron data set do not contain. */
struct megatron_settings {
    const char *tokenizer; /* argument of tokenizer_open; "": plain ids, below `vocabulary` */
    int64_t vocabulary;
    const char *parts; /* split ratios (data/megatron_part.h) */
    enum megatron_use use;
    bool ordered;    /* use Megatron-LM's own order */
    int64_t samples; /* samples of the whole run, if ordered */
    uint32_t seed;   /* seed of the order, if ordered */
};

struct data_set {
    const char *path; /* borrowed */
    struct token_store *store;
    struct megatron_store *megatron; /* either store or megatron is NULL */
    const struct tokenizer *tokenizer;
    struct tokenizer plain;           /* tokenizer of plain ids, for `megatron` without a tokenizer */
    const struct tokenizer *opened;   /* tokenizer opened for `megatron`; else NULL */
    struct store_windows *windows;    /* windows of `store` */
    struct megatron_windows *samples; /* windows of `megatron` */
    int64_t epoch_windows, epoch_tokens;
    bool replaced; /* data_set_recheck has warned */
};

/* Name of the tokenizer of plain ids, which have no meaning to this program. */
extern const char data_set_plain_ids[];

/* Returns whether a file or Megatron data set of this name exists. */
bool data_set_exists(const char *path);

/* Opens the files, but not the windows. Local. Errors: as in token_store_open, megatron_store_open and tokenizer_open;
 * ERROR_USER: plain ids without a vocabulary, or Megatron-LM's order requested for a token store. Close the data set
 * also after an error. */
int data_set_open(struct data_set *data_set, const char *path, const struct megatron_settings *settings);
void data_set_close(struct data_set *data_set);

/* Sets epoch_windows and epoch_tokens (special tokens included; without the extra label token of a Megatron sample)
 * without opening windows; data_set_open_windows sets them too. An epoch is one pass over the sequences, also with
 * Megatron-LM's order. Local. Errors: as in windows_measure and megatron_part_choose; ERROR_USER: the layout does not
 * apply to a Megatron data set. */
int data_set_measure(struct data_set *data_set, const struct windows_layout *layout,
                     const struct megatron_settings *settings);

/* Opens the windows. samples: the number that the run consumes of this data set in Megatron-LM's order; 0: at most one
 * epoch. Collective over world, with the same code on all ranks. Errors: as in data_set_measure, windows_open and
 * megatron_windows_create. */
int data_set_open_windows(struct data_set *data_set, const struct windows_layout *layout,
                          const struct megatron_settings *settings, int64_t samples, struct comm *world);
const struct window_source *data_set_source(const struct data_set *data_set);

/* Opens the tokenizer; *tokenizer is NULL for plain ids. The caller closes it. Local; reads a file. Errors: as in
 * tokenizer_member_open. */
int data_set_open_tokenizer(const struct data_set *data_set, const struct tokenizer **tokenizer);

/* Checks whether the path still leads to the data that was opened. Local. If another file with other content is there,
 * warns once: the opened data stays readable, but a restart will not find it. ERROR_USER: the opened file itself was
 * overwritten with other content. */
int data_set_recheck(struct data_set *data_set);

/* Checksum of the files, to compare ranks. Once windows are open, it includes the settings that determine Megatron-LM's
 * order. */
uint64_t data_set_checksum(const struct data_set *data_set);

#endif
