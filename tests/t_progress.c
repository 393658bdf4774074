/* The line of progress appears on a pseudo-terminal alone, says how much is done and the time left, is erased before
 * lines of the log and at the end, and counts what several threads add. Files and other ranks get nothing. */
#include "check.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/progress.h"
#include "base/range.h"
#include "base/thread.h"

#include <fcntl.h>
#include <termios.h>
#include <unistd.h>

static char shown[1 << 16]; /* what the terminal got in a scene */

/* Runs a scene whose standard error is a pseudo-terminal, or an empty file, and reads what it wrote. */
static void watch(void (*scene)(void), bool terminal)
{
    char path[] = "/tmp/cistron-progress.XXXXXX";
    const int before = dup(STDERR_FILENO);
    const int ours = terminal ? posix_openpt(O_RDWR | O_NOCTTY) : mkstemp(path);
    CHECK(ours >= 0 && (!terminal || (grantpt(ours) == 0 && unlockpt(ours) == 0)));
    const int theirs = terminal ? open(ptsname(ours), O_RDWR | O_NOCTTY) : dup(ours);
    struct termios raw;
    if (terminal && tcgetattr(theirs, &raw) == 0) {
        raw.c_oflag &= ~(tcflag_t)OPOST;
        tcsetattr(theirs, TCSANOW, &raw);
    }
    fflush(stderr);
    fcntl(theirs, F_SETFL, O_NONBLOCK); /* nobody reads before the end */
    dup2(theirs, STDERR_FILENO);
    scene();
    fflush(stderr);
    dup2(before, STDERR_FILENO);
    memset(shown, 0, sizeof shown);
    fcntl(ours, F_SETFL, O_NONBLOCK);
    if (!terminal)
        lseek(ours, 0, SEEK_SET);
    for (ssize_t got = 0, bytes = 1; bytes > 0; got += MAX(bytes, 0))
        bytes = read(ours, shown + got, sizeof shown - 1 - (size_t)got);
    close(theirs);
    close(ours);
    close(before);
    if (!terminal)
        unlink(path);
}

/* Applies \r and text as a terminal does; returns the visible line without blanks at its end. */
static const char *visible(const char *text)
{
    static char line[256];
    int at = 0, end = 0;
    memset(line, ' ', sizeof line);
    for (; *text != '\0'; text++)
        if (*text == '\r')
            at = 0;
        else if (*text == '\n')
            memset(line, ' ', sizeof line), at = end = 0;
        else if (at < (int)sizeof line - 1)
            line[at++] = *text, end = MAX(end, at);
    while (end > 0 && line[end - 1] == ' ')
        end--;
    line[end] = '\0';
    return line;
}

static double started, asked;

static void half(void)
{
    struct progress_line progress;
    started = clock_seconds();
    progress_start(&progress, "reading", "MB", 1000);
    usleep(300000);
    progress_add(&progress, 10);
    asked = clock_seconds();
    progress_add(&progress, 490); /* too soon for another drawing */
    progress_end(&progress);
}

static void check_line(void)
{
    int hours, minutes, seconds;
    watch(half, true);
    char *line = shown + 1, *end = strchr(line, '\r'), *left = strstr(line, "/s  ");
    CHECK(shown[0] == '\r' && end != NULL);
    *end = '\0';
    printf("%s\n", line);
    CHECK(strncmp(line, "reading [                        ]   1 %  ", 42) == 0);
    CHECK(left != NULL && sscanf(left, "/s  %d:%d:%d left", &hours, &minutes, &seconds) == 3);
    const double expected = hours * 3600 + minutes * 60 + seconds;
    CHECK(expected >= 0.3 * 99 - 1 && expected <= (asked - started) * 99 + 1);
    CHECK(strstr(end + 1, "50 %") == NULL);
}

static void whole(void)
{
    struct progress_line progress, inner;
    progress_start(&progress, "writing", "MB", 4);
    progress_add(&progress, 1);
    progress_start(&inner, "inner", "MB", 4);
    progress_add(&inner, 1);
    progress_end(&inner);
    log_warn("a warning");
    for (int i = 0; i < 2; i++) {
        usleep(210000);
        progress_add(&progress, 1);
    }
    progress_end(&progress);
}

static void check_erased(void)
{
    watch(whole, true);
    CHECK(strstr(shown, " 25 %") != NULL && strstr(shown, " 50 %") != NULL && strstr(shown, " 75 %") != NULL);
    CHECK(strstr(shown, "inner") == NULL);
    CHECK_STRING(visible(shown), "");
    char *end = strchr(shown, '\n');
    CHECK(end != NULL);
    *end = '\0';
    CHECK_STRING(visible(shown), "warning: a warning");
    watch(whole, false);
    CHECK(strstr(shown, " %") == NULL && strstr(shown, "writing") == NULL && strchr(shown, '\r') == NULL);
    log_open(1);
    watch(whole, true);
    CHECK_STRING(shown, "");
    log_open(0);
}

static struct progress_line common;

static int add_one(void *self, int64_t i)
{
    (void)self;
    (void)i;
    progress_add(&common, 1);
    return ERROR_NONE;
}

static void unknown(void)
{
    progress_start(&common, "reading", "MB", 0);
    CHECK(thread_each(100000, 4, add_one, NULL) == ERROR_NONE);
    usleep(210000);
    progress_add(&common, 0);
    progress_erase();
    progress_set(&common, 7);
    progress_end(&common);
}

static void check_threads(void)
{
    watch(unknown, true);
    CHECK(strstr(shown, "reading 100000 MB  ") != NULL && strstr(shown, "left") == NULL);
    CHECK(common.done == 7);
}

int main(void)
{
    log_open(0);
    check_line();
    check_erased();
    check_threads();
    return check_end();
}
