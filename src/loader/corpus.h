/* What one item of data.train names: a token store (data/token_store.h) or a data set of Megatron-LM
 * (data/megatron_store.h), and its windows. */
#ifndef LOADER_CORPUS_H
#define LOADER_CORPUS_H

#include "comm/comm.h"
#include "data/megatron_windows.h"
#include "data/token_store.h"
#include "data/windows.h"

/* What the files of a Megatron data set do not say. */
struct megatron_settings {
    const char *tokenizer; /* what tokenizer_open takes; "": plain ids, below `vocabulary` */
    int64_t vocabulary;
    const char *parts; /* data/megatron_part.h */
    enum megatron_use use;
    bool ordered;    /* in Megatron-LM's own order */
    int64_t samples; /* that the run takes of all; where ordered */
    uint32_t seed;   /* where ordered */
};

struct corpus {
    const char *path; /* borrowed */
    struct token_store *store;
    struct megatron_store *megatron; /* of these two one is NULL */
    const struct tokenizer *tokenizer;
    struct tokenizer plain;           /* that of `megatron`, where it has no other */
    const struct tokenizer *opened;   /* for `megatron`; else NULL */
    struct store_windows *windows;    /* of `store` */
    struct megatron_windows *samples; /* of `megatron` */
    int64_t epoch_windows, epoch_tokens;
    bool replaced; /* corpus_recheck has warned */
};

/* The name of tokenizers whose ids mean nothing here. */
extern const char corpus_plain_ids[];

/* Whether there are files of that name. */
bool corpus_exists(const char *path);

/* Opens the files, not the windows. Local. Errors: those of token_store_open, megatron_store_open and tokenizer_open;
 * ERROR_USER: no vocabulary for plain ids, or a token store where Megatron-LM's order is wanted. Close the corpus in
 * any case. */
int corpus_open(struct corpus *corpus, const char *path, const struct megatron_settings *settings);
void corpus_close(struct corpus *corpus);

/* Gives epoch_windows and epoch_tokens (specials included, and of samples not the token behind) without opening
 * windows, which gives them too. In Megatron-LM's order too an epoch has each sequence once. Local. Errors:
 * those of windows_measure and megatron_part_choose; ERROR_USER: a layout that this kind does not have. */
int corpus_measure(struct corpus *corpus, const struct windows_layout *layout,
                   const struct megatron_settings *settings);

/* Collective over world; the same code on all ranks. samples: that the run takes of this one, in Megatron-LM's order;
 * 0: no more than one epoch. Errors: those of corpus_measure, windows_open and megatron_windows_create. */
int corpus_open_windows(struct corpus *corpus, const struct windows_layout *layout,
                        const struct megatron_settings *settings, int64_t samples, struct comm *world);
const struct window_source *corpus_source(const struct corpus *corpus);

/* Opens the tokenizer; *tokenizer is NULL of plain ids. Local; it reads a file. Close it. Errors of
 * tokenizer_member_open. */
int corpus_open_tokenizer(const struct corpus *corpus, const struct tokenizer **tokenizer);

/* Is what lies at the path still what was opened? Local. Another file in its place with other content: a warning, once,
 * since what was opened is read as before, but a restart will not find it. ERROR_USER: the file itself was written to,
 * and its content is another. */
int corpus_recheck(struct corpus *corpus);

/* Of the files, so that ranks can be compared, and, once windows are open, of what else makes the order of
 * Megatron-LM. */
uint64_t corpus_checksum(const struct corpus *corpus);

#endif
