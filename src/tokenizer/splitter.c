#include "tokenizer/splitter.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/text.h"
#include "tokenizer/classes.h"
#include "tokenizer/pattern.h"
#include "tokenizer/splitter_known.h"

#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

enum { JIT_STACK_FIRST = 1 << 15, JIT_STACK_MOST = 1 << 23, HEAP_KIB = 1 << 18 };

struct text_splitter {
    const struct splitter_known *known; /* NULL: use PCRE2 */
    pcre2_code *code;
    enum splitter_behavior behavior;
    bool invert;
    char *where;
};

struct splitter_scratch {
    pcre2_match_data *data;
    pcre2_match_context *context;
    pcre2_jit_stack *stack;
};

/* -- Opening ---------------------------------------------------------------------------------------------------- */

static int compile(struct text_splitter *split, const char *pattern, bool literal)
{
    int code;
    PCRE2_SIZE at;
    uint32_t empty = 0;
    char shown[TEXT_SHORT];
    pcre2_compile_context *context = pcre2_compile_context_create(NULL);
    if (context == NULL)
        error_fatal("out of memory for PCRE2");
    pcre2_set_newline(context, PCRE2_NEWLINE_LF);
    split->code = pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED,
                                literal ? PCRE2_UTF | PCRE2_LITERAL : PCRE2_UTF | PCRE2_UCP, &code, &at, context);
    pcre2_compile_context_free(context);
    if (split->code == NULL) {
        PCRE2_UCHAR message[256];
        pcre2_get_error_message(code, message, sizeof message);
        return error_user("%s: \"%s\": PCRE2 rejects it: %s", split->where, text_short(shown, pattern),
                          (const char *)message);
    }
    pcre2_pattern_info(split->code, PCRE2_INFO_MATCHEMPTY, &empty);
    if (empty)
        return error_user("%s: \"%s\" must not match the empty string", split->where, text_short(shown, pattern));
    pcre2_jit_compile(split->code, PCRE2_JIT_COMPLETE); /* a failure only makes matching slower */
    return ERROR_NONE;
}

static int compile_pattern(struct text_splitter *split, const struct splitter_settings *settings)
{
    char *translated;
    if (settings->literal)
        return compile(split, settings->pattern, true);
    int code = pattern_translate(&translated, settings->pattern, split->where);
    if (code == ERROR_NONE)
        code = compile(split, translated, false);
    free(translated);
    return code;
}

/* Returns whether each match is a piece, without regard to the text between matches. The known patterns match
 * everything, so there is none. */
static bool only_matches(const struct splitter_settings *settings)
{
    return settings->behavior == SPLIT_ISOLATED || (settings->behavior == SPLIT_REMOVED && settings->invert);
}

int splitter_open(struct text_splitter **split, const struct splitter_settings *settings)
{
    struct text_splitter *made = memory_allocate(sizeof *made);
    *made = (struct text_splitter){
        .behavior = settings->behavior, .invert = settings->invert, .where = memory_string(settings->where)};
    if (!settings->by_pcre2 && !settings->literal && only_matches(settings))
        made->known = splitter_known_find(settings->pattern);
    int code = made->known != NULL ? ERROR_NONE : compile_pattern(made, settings);
    if (code != ERROR_NONE) {
        splitter_close(made);
        made = NULL;
    }
    *split = made;
    return code;
}

void splitter_close(struct text_splitter *split)
{
    if (split == NULL)
        return;
    pcre2_code_free(split->code);
    free(split->where);
    memory_free(split);
}

struct splitter_scratch *splitter_scratch_open(void)
{
    struct splitter_scratch *scratch = memory_allocate(sizeof *scratch);
    scratch->data = pcre2_match_data_create(1, NULL);
    scratch->context = pcre2_match_context_create(NULL);
    if (scratch->data == NULL || scratch->context == NULL)
        error_fatal("out of memory for PCRE2");
    scratch->stack = pcre2_jit_stack_create(JIT_STACK_FIRST, JIT_STACK_MOST, NULL);
    pcre2_jit_stack_assign(scratch->context, NULL, scratch->stack);
    pcre2_set_heap_limit(scratch->context, HEAP_KIB);
    return scratch;
}

void splitter_scratch_close(struct splitter_scratch *scratch)
{
    if (scratch == NULL)
        return;
    pcre2_jit_stack_free(scratch->stack);
    pcre2_match_context_free(scratch->context);
    pcre2_match_data_free(scratch->data);
    memory_free(scratch);
}

/* -- Splitting -------------------------------------------------------------------------------------------------- */

/* The current piece, which may still grow. */
struct pending {
    const struct text_splitter *split;
    splitter_taker *take;
    void *context;
    const unsigned char *begin, *end;
    bool match; /* kind of its last part */
};

static bool joins(enum splitter_behavior behavior, bool before, bool match)
{
    switch (behavior) {
    case SPLIT_CONTIGUOUS:
        return before == match;
    case SPLIT_MERGED_WITH_PREVIOUS:
        return !before && match;
    case SPLIT_MERGED_WITH_NEXT:
        return before && !match;
    default:
        return false;
    }
}

static int flush(struct pending *p)
{
    if (p->begin == p->end || (p->split->behavior == SPLIT_REMOVED && p->match))
        return ERROR_NONE;
    return p->take(p->context, p->begin, p->end - p->begin);
}

/* Adds the next part of the text, which ends at `end`: a match, or the text before it. */
static int add_part(struct pending *p, const unsigned char *end, bool match)
{
    match = match != p->split->invert;
    if (p->end == end)
        return ERROR_NONE;
    if (p->begin < p->end && !joins(p->split->behavior, p->match, match)) {
        int code = flush(p);
        if (code != ERROR_NONE)
            return code;
        p->begin = p->end;
    }
    p->end = end;
    p->match = match;
    return ERROR_NONE;
}

/* Finds PCRE2's next match from `at` on. Uses the interpreter if JIT's stack is too small. */
static int next_match(const struct text_splitter *split, struct splitter_scratch *scratch, const unsigned char *text,
                      int64_t bytes, size_t at)
{
    int found = pcre2_match(split->code, text, (size_t)bytes, at, PCRE2_NO_UTF_CHECK, scratch->data, scratch->context);
    if (found == PCRE2_ERROR_JIT_STACKLIMIT)
        found = pcre2_match(split->code, text, (size_t)bytes, at, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, scratch->data,
                            scratch->context);
    return found;
}

static int run_pcre2(const struct text_splitter *split, struct splitter_scratch *scratch, const unsigned char *text,
                     int64_t bytes, splitter_taker *take, void *context)
{
    struct pending p = {.split = split, .take = take, .context = context, .begin = text, .end = text};
    size_t at = 0;
    int code = ERROR_NONE, count = 1;
    while (code == ERROR_NONE && (count = next_match(split, scratch, text, bytes, at)) >= 0) {
        const PCRE2_SIZE *found = pcre2_get_ovector_pointer(scratch->data);
        size_t begin = found[0];
        at = found[1]; /* saved, because `take` may use the scratch for another stage */
        code = add_part(&p, text + begin, false);
        if (code == ERROR_NONE)
            code = add_part(&p, text + at, true);
    }
    if (code == ERROR_NONE && count != PCRE2_ERROR_NOMATCH) {
        PCRE2_UCHAR message[256];
        pcre2_get_error_message(count, message, sizeof message);
        return error_user("%s: PCRE2 fails on a text of %lld bytes: %s", split->where, (long long)bytes,
                          (const char *)message);
    }
    if (code == ERROR_NONE)
        code = add_part(&p, text + bytes, false);
    return code == ERROR_NONE ? flush(&p) : code;
}

int splitter_run(const struct text_splitter *split, struct splitter_scratch *scratch, const unsigned char *text,
                 int64_t bytes, splitter_taker *take, void *context)
{
    if (split->known == NULL)
        return run_pcre2(split, scratch, text, bytes, take, context);
    int code = ERROR_NONE;
    const struct character_classes *classes = classes_get();
    const unsigned char *end = text + bytes;
    while (code == ERROR_NONE && text < end) {
        const unsigned char *next = splitter_known_next(split->known, classes, text, end);
        code = take(context, text, next - text);
        text = next;
    }
    return code;
}
