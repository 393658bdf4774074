/* The normalizer of a text tokenizer: steps that change a text, in their order. */
#ifndef TOKENIZER_TEXT_NORMALIZER_H
#define TOKENIZER_TEXT_NORMALIZER_H

#include "tokenizer/bert_normalizer.h"
#include "tokenizer/nfc.h"
#include "tokenizer/spm_normalizer.h"
#include "tokenizer/text_buffer.h"

#include <stdbool.h>
#include <stdint.h>

enum { NORMALIZER_MOST_STEPS = 16 };

enum normalizer_kind {
    NORMALIZER_NFC,
    NORMALIZER_BERT,         /* as `bert` says */
    NORMALIZER_PREPEND,      /* `to` before a text, if it is not empty */
    NORMALIZER_REPLACE,      /* each `from` becomes `to` */
    NORMALIZER_REPLACE_RUNS, /* each run of two and more `from` becomes one `to` */
    NORMALIZER_STRIP,        /* without white space at the beginning (`left`) and the end (`right`) */
    NORMALIZER_SPM           /* as `spm` says */
};

struct normalizer_step {
    enum normalizer_kind kind;
    struct bert_normalizer bert;
    struct spm_normalizer spm;
    char *from, *to; /* owned; `from` is not empty */
    bool left, right;
};

struct text_normalizer {
    struct normalizer_step steps[NORMALIZER_MOST_STEPS]; /* at most one of NFC and one of BERT */
    int count;
};

/* The buffers of one thread, reused between calls; {0} is empty. */
struct normalized_text {
    struct nfc nfc;
    struct bert_text bert;
    struct text_buffer steps[NORMALIZER_MOST_STEPS];
    bool stripped; /* the last text lost white space at its beginning */
};

/* Appends a step, which the normalizer then owns. Returns false, and owns nothing, if there are too many steps or it is
 * the second NFC or BERT. */
bool normalizer_add(struct text_normalizer *normalizer, const struct normalizer_step *step);
/* Returns whether a step puts SPM_BLANK before a text, or replaces blanks by it. */
bool normalizer_prepends(const struct text_normalizer *normalizer);
bool normalizer_replaces(const struct text_normalizer *normalizer);
void normalizer_free(struct text_normalizer *normalizer);

/* Normalizes `text`, valid UTF-8. Returns the result, *normalized bytes of valid UTF-8: `text` itself if no step
 * changes it, else a buffer, valid until the next call. */
const unsigned char *normalizer_run(const struct text_normalizer *normalizer, struct normalized_text *buffers,
                                    const unsigned char *text, int64_t bytes, int64_t *normalized);
void normalized_text_free(struct normalized_text *buffers);

#endif
