#include "base/progress.h"
#include "base/clock.h"
#include "base/duration.h"
#include "base/error.h"
#include "base/range.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

enum { BAR_WIDTH = 24, LINE_BYTES = 160 };

static const double interval = 0.2; /* seconds between two drawings */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct progress_line *shown; /* the progress that is shown, if any */
static int drawn;                   /* columns of the line on the terminal; 0: none */

bool progress_wanted(void)
{
    return error_rank() == 0 && isatty(STDERR_FILENO) == 1;
}

static void erase(void)
{
    if (drawn > 0)
        fprintf(stderr, "\r%*s\r", drawn, "");
    fflush(stderr);
    drawn = 0;
}

static void print_line(char line[LINE_BYTES], const struct progress_line *p, double seconds)
{
    char left[DURATION_BYTES];
    const double rate = p->done / (seconds + 1e-9), part = p->total > 0 ? fmin(p->done / p->total, 1) : 0;
    const int filled = (int)(part * BAR_WIDTH), digits = rate < 10 ? 1 : 0;
    duration_print(left, p->done > 0 ? fmax(p->total - p->done, 0) / rate : NAN);
    if (p->total > 0)
        snprintf(line, LINE_BYTES, "%s [%.*s%*s] %3.0f %%  %.*f %s/s  %s left", p->what, filled,
                 "========================", BAR_WIDTH - filled, "", floor(100 * part), digits, rate, p->unit, left);
    else
        snprintf(line, LINE_BYTES, "%s %.0f %s  %.*f %s/s", p->what, p->done, p->unit, digits, rate, p->unit);
}

/* Draws the line over the one before. */
static void draw(const struct progress_line *p, double now)
{
    char line[LINE_BYTES];
    print_line(line, p, now - p->start);
    const int before = drawn;
    drawn = fprintf(stderr, "\r%s", line) - 1;
    if (drawn < before)
        fprintf(stderr, "%*s", before - drawn, "");
    drawn = MAX(drawn, before);
    fflush(stderr);
}

static void redraw(struct progress_line *p)
{
    const double now = clock_seconds();
    if (p->last >= 0 && now - p->last < interval)
        return;
    p->last = now;
    draw(p, now);
}

void progress_start(struct progress_line *p, const char *what, const char *unit, double total)
{
    *p = (struct progress_line){.what = what, .unit = unit, .total = total, .start = clock_seconds(), .last = -1};
    pthread_mutex_lock(&lock);
    p->shown = shown == NULL && progress_wanted();
    if (p->shown)
        shown = p;
    pthread_mutex_unlock(&lock);
}

void progress_add(struct progress_line *p, double amount)
{
    if (!p->shown)
        return;
    pthread_mutex_lock(&lock);
    p->done += amount;
    redraw(p);
    pthread_mutex_unlock(&lock);
}

void progress_set(struct progress_line *p, double done)
{
    if (!p->shown)
        return;
    pthread_mutex_lock(&lock);
    p->done = done;
    redraw(p);
    pthread_mutex_unlock(&lock);
}

void progress_end(struct progress_line *p)
{
    if (!p->shown)
        return;
    pthread_mutex_lock(&lock);
    erase();
    shown = NULL;
    p->shown = false;
    pthread_mutex_unlock(&lock);
}

void progress_erase(void)
{
    if (pthread_mutex_trylock(&lock) != 0) /* a thread is drawing; the log does not wait for it */
        return;
    if (drawn > 0)
        erase();
    pthread_mutex_unlock(&lock);
}
