#include "tokenizer/text_normalizer.h"
#include "tokenizer/classes.h"
#include "tokenizer/utf8.h"

#include <stdlib.h>

bool normalizer_add(struct text_normalizer *normalizer, const struct normalizer_step *step)
{
    const bool buffered = step->kind == NORMALIZER_NFC || step->kind == NORMALIZER_BERT;
    for (int i = 0; i < normalizer->count; i++)
        if (buffered && normalizer->steps[i].kind == step->kind)
            return false;
    if (normalizer->count == NORMALIZER_MOST_STEPS)
        return false;
    normalizer->steps[normalizer->count++] = *step;
    return true;
}

bool normalizer_prepends(const struct text_normalizer *normalizer)
{
    bool prepends = false;
    for (int i = 0; i < normalizer->count; i++) {
        const struct normalizer_step *step = &normalizer->steps[i];
        prepends |= step->kind == NORMALIZER_PREPEND && strcmp(step->to, SPM_BLANK) == 0;
        prepends |= step->kind == NORMALIZER_SPM && step->spm.prefix;
    }
    return prepends;
}

bool normalizer_replaces(const struct text_normalizer *normalizer)
{
    bool replaces = false;
    for (int i = 0; i < normalizer->count; i++) {
        const struct normalizer_step *step = &normalizer->steps[i];
        const bool replacing = step->kind == NORMALIZER_REPLACE || step->kind == NORMALIZER_REPLACE_RUNS;
        replaces |= replacing && strcmp(step->from, " ") == 0 && strcmp(step->to, SPM_BLANK) == 0;
        replaces |= step->kind == NORMALIZER_SPM && step->spm.escape;
    }
    return replaces;
}

void normalizer_free(struct text_normalizer *normalizer)
{
    for (int i = 0; i < normalizer->count; i++) {
        free(normalizer->steps[i].from);
        free(normalizer->steps[i].to);
        charsmap_close(normalizer->steps[i].spm.charsmap);
    }
}

void normalized_text_free(struct normalized_text *buffers)
{
    nfc_free(&buffers->nfc);
    bert_text_free(&buffers->bert);
    for (int i = 0; i < NORMALIZER_MOST_STEPS; i++)
        free(buffers->steps[i].text);
}

/* Replaces each `from`, or each run of `least` and more of them, by `to`. */
static void replace(struct text_buffer *out, const struct normalizer_step *step, int64_t least,
                    const unsigned char *text, int64_t bytes)
{
    const int64_t from = (int64_t)strlen(step->from), to = (int64_t)strlen(step->to);
    for (int64_t at = 0; at < bytes;) {
        const unsigned char *found = memmem(text + at, (size_t)(bytes - at), step->from, (size_t)from);
        const int64_t begin = found == NULL ? bytes : found - text;
        int64_t end = begin, count = 0;
        text_buffer_add(out, text + at, begin - at);
        while (end + from <= bytes && memcmp(text + end, step->from, (size_t)from) == 0 && (count == 0 || least > 1)) {
            end += from;
            count++;
        }
        if (count >= least)
            text_buffer_add(out, step->to, to);
        else
            text_buffer_add(out, text + begin, end - begin);
        at = end;
    }
}

static bool is_space(const unsigned char *text, int *length)
{
    return classes_get()->of[utf8_read(text, length)] & CLASS_SPACE;
}

static const unsigned char *strip(const struct normalizer_step *step, struct normalized_text *buffers,
                                  const unsigned char *text, int64_t *bytes)
{
    int length;
    while (step->left && *bytes > 0 && is_space(text, &length)) {
        text += length;
        *bytes -= length;
        buffers->stripped = true;
    }
    while (step->right && *bytes > 0) {
        int64_t last = *bytes - 1;
        while ((text[last] & 0xc0) == 0x80)
            last--;
        if (!is_space(text + last, &length))
            break;
        *bytes = last;
    }
    return text;
}

static const unsigned char *run_step(const struct normalizer_step *step, struct normalized_text *buffers,
                                     struct text_buffer *out, const unsigned char *text, int64_t *bytes)
{
    out->used = 0;
    switch (step->kind) {
    case NORMALIZER_NFC:
        return nfc_normalize(&buffers->nfc, text, *bytes, bytes);
    case NORMALIZER_BERT:
        return bert_normalize(&step->bert, &buffers->bert, text, *bytes, bytes);
    case NORMALIZER_STRIP:
        return strip(step, buffers, text, bytes);
    case NORMALIZER_PREPEND:
        text_buffer_add(out, step->to, *bytes > 0 ? (int64_t)strlen(step->to) : 0);
        text_buffer_add(out, text, *bytes);
        break;
    case NORMALIZER_REPLACE:
        replace(out, step, 1, text, *bytes);
        break;
    case NORMALIZER_REPLACE_RUNS:
        replace(out, step, 2, text, *bytes);
        break;
    case NORMALIZER_SPM:
        spm_normalize(&step->spm, out, text, *bytes);
        break;
    }
    *bytes = out->used;
    return out->text;
}

const unsigned char *normalizer_run(const struct text_normalizer *normalizer, struct normalized_text *buffers,
                                    const unsigned char *text, int64_t bytes, int64_t *normalized)
{
    *normalized = bytes;
    buffers->stripped = false;
    for (int i = 0; i < normalizer->count; i++)
        text = run_step(&normalizer->steps[i], buffers, &buffers->steps[i], text, normalized);
    return text;
}
