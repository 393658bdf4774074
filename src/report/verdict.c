#include "report/verdict.h"
#include "base/memory.h"
#include "base/range.h"
#include "base/thousands.h"

#include <stdlib.h>
#include <string.h>

static int64_t last_step(const struct run_history *h)
{
    int64_t row = h->row_count > 0 ? h->rows[h->row_count - 1].step : 0;
    int64_t saved = h->checkpoint_count > 0 ? h->checkpoints[h->checkpoint_count - 1].step : 0;
    return MAX(row, saved);
}

static int64_t steps_total(const struct run_history *h)
{
    return h->start_count > 0 ? h->starts[h->start_count - 1].steps_total : 0;
}

/* "step 269 of 1,800" */
static char *where(const struct run_history *h, int64_t step)
{
    char *at = thousands_text(step), *of = thousands_text(steps_total(h));
    char *text = steps_total(h) > 0 ? memory_format("step %s of %s", at, of) : memory_format("step %s", at);
    free(at);
    free(of);
    return text;
}

/* Returns the verdict if the last program has not logged its end. */
static struct run_verdict without_end(const struct run_history *h, const char *at)
{
    if (h->start_count == 0)
        return (struct run_verdict){"unknown", memory_string("the log has no start of a program")};
    if (last_step(h) >= steps_total(h) && h->timer_count > 0) /* old versions did not log an end */
        return (struct run_verdict){"finished", memory_string(at)};
    if (h->timer_count > 0)
        return (struct run_verdict){"stopped", memory_format("%s; the log has no reason", at)};
    return (struct run_verdict){
        "killed", memory_format("last seen at %s; no program is running in the folder, and the last one was killed or "
                                "crashed. The same command resumes from the last checkpoint",
                                at)};
}

struct run_verdict verdict_of(const struct run_history *h, bool held)
{
    static const char *const words[] = {"finished", "stopped", "diverged", "failed"};
    const struct history_end *end = h->end_count > 0 ? &h->ends[h->end_count - 1] : NULL;
    struct run_verdict found = {"unknown", NULL};
    bool ended = end != NULL && end->starts == h->start_count;
    char *at = where(h, ended && !held ? end->step : last_step(h));
    if (held) {
        found = (struct run_verdict){"running", memory_format("last logged: %s", at)};
    } else if (!ended) {
        found = without_end(h, at);
    } else {
        for (size_t i = 0; i < sizeof words / sizeof *words; i++)
            if (strcmp(end->how, words[i]) == 0)
                found.word = words[i];
        found.text = strcmp(end->how, "finished") == 0 ? memory_string(at)
                     : strcmp(end->how, "stopped") == 0
                         ? memory_format("at %s: %s. The same command resumes it", at, end->text)
                     : strcmp(end->how, "diverged") == 0 ? memory_string(end->text) /* the text names the step */
                                                         : memory_format("at %s: %s", at, end->text);
    }
    free(at);
    return found;
}
