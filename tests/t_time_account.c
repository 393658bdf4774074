/* The account of a run's wall-clock time is exact for logs with known times: several programs, killed and ended, rows
 * of one step and of several, steps that a checkpoint includes only in part, a rewind, clocks set back, logs of old
 * versions. Lines that a restart drops stay in the account over further restarts. The report prints its shares. */
#include "check.h"

#include "base/error.h"
#include "base/memory.h"
#include "monitor/event_log.h"
#include "report/history.h"
#include "report/report.h"

#include <math.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[] = "/tmp/cistron-account-XXXXXX";
static char *path;

static void write_log(const char *text)
{
    FILE *file = fopen(path, "w");
    fputs(text, file);
    CHECK(fclose(file) == 0);
}

static void append(const char *text)
{
    FILE *file = fopen(path, "a");
    fputs(text, file);
    CHECK(fclose(file) == 0);
}

/* Opens the log as a program that resumes at `step`, and closes it. */
static struct time_account reopen(int64_t step, bool validates)
{
    struct event_log event_log;
    event_log_open(&event_log, path, step, validates);
    const struct time_account account = event_log.account;
    event_log_close(&event_log);
    return account;
}

/* The account of the file, as reports read it. */
static struct time_account account_of_file(void)
{
    struct run_history history;
    CHECK(history_read(&history, path) == ERROR_NONE);
    const struct time_account account = history.account;
    history_destroy(&history);
    return account;
}

static bool near(double a, double b)
{
    return fabs(a - b) < 1e-6;
}

static bool equal(const struct time_account *a, const struct time_account *b)
{
    bool same = near(a->begun, b->begun) && near(a->until, b->until) && a->programs == b->programs &&
                a->lost_steps == b->lost_steps;
    for (int k = 0; k < TIME_REST; k++)
        same = same && near(a->seconds[k], b->seconds[k]);
    return same;
}

/* The first program begins at 1000 and trains from 1010. It saves at step 4 and is killed after its line of step 6; the
 * second begins at 1100. */
static const char first_program[] =
    "{\"event\":\"start\",\"step\":0,\"begun\":1000,\"time\":1010}\n"
    "{\"event\":\"step\",\"step\":1,\"seconds\":2,\"step_seconds\":[2],\"time\":1012}\n"
    "{\"event\":\"step\",\"step\":4,\"seconds\":6,\"step_seconds\":[1,2,3],\"time\":1018}\n"
    "{\"event\":\"checkpoint\",\"step\":4,\"waited\":1.5,\"seconds\":9,\"time\":1020}\n"
    "{\"event\":\"validation\",\"step\":4,\"loss\":1,\"seconds\":5,\"time\":1025}\n"
    "{\"event\":\"step\",\"step\":6,\"seconds\":7,\"step_seconds\":[3,4],\"time\":1032}\n"
    "{\"event\":\"validation\",\"step\":6,\"loss\":1,\"seconds\":0.5,\"time\":1033}\n";
static const char second_program[] =
    "{\"event\":\"start\",\"step\":4,\"begun\":1100,\"time\":1104}\n"
    "{\"event\":\"step\",\"step\":8,\"seconds\":10,\"step_seconds\":[1,2,3,4],\"time\":1114}\n"
    "{\"event\":\"end\",\"step\":8,\"how\":\"stopped\",\"time\":1116}\n";

static void check_killed(void)
{
    write_log(first_program);
    const struct time_account killed = reopen(4, false);
    CHECK(near(killed.seconds[TIME_STEPS], 8) && near(killed.seconds[TIME_LOST], 7.5) && killed.lost_steps == 2);
    CHECK(near(killed.seconds[TIME_START], 10) && near(killed.seconds[TIME_VALIDATION], 5));
    CHECK(near(killed.seconds[TIME_SAVES], 1.5) && killed.seconds[TIME_BETWEEN] == 0);
    CHECK(near(killed.begun, 1000) && near(killed.until, 1033) && killed.programs == 1);
    CHECK(near(time_account_seconds(&killed, TIME_REST, killed.until), 33 - 8 - 7.5 - 10 - 5 - 1.5));
    const struct time_account file = account_of_file();
    CHECK(equal(&killed, &file));

    append(second_program);
    const struct time_account both = account_of_file();
    CHECK(near(both.seconds[TIME_STEPS], 18) && near(both.seconds[TIME_BETWEEN], 67) && both.programs == 2);
    CHECK(near(both.seconds[TIME_START], 14) && near(both.until, 1116) && both.lost_steps == 2);

    /* the second program's checkpoint at step 6 has two of the four steps of its row */
    const struct time_account partly = reopen(6, false);
    CHECK(near(partly.seconds[TIME_STEPS], 11) && near(partly.seconds[TIME_LOST], 14.5) && partly.lost_steps == 4);
    CHECK(near(partly.until, 1116));
    const struct time_account again = reopen(6, false); /* nothing more is dropped, and nothing is forgotten */
    const struct time_account read = account_of_file();
    CHECK(equal(&partly, &again) && equal(&partly, &read));
    const struct time_account earlier = reopen(0, false); /* all steps are lost, those that were counted too */
    CHECK(near(earlier.seconds[TIME_START], 14) && earlier.programs == 2);
    CHECK(earlier.seconds[TIME_STEPS] == 0 && near(earlier.seconds[TIME_LOST], 18 + 14.5 - 7 + 5 + 1.5));
    CHECK(earlier.seconds[TIME_VALIDATION] == 0 && earlier.seconds[TIME_SAVES] == 0 && near(earlier.until, 1116));
}

/* The validation of the step itself is repeated; its time is lost. */
static void check_validation(void)
{
    write_log(first_program);
    const struct time_account account = reopen(6, true);
    CHECK(near(account.seconds[TIME_LOST], 0.5) && near(account.seconds[TIME_VALIDATION], 5));
    CHECK(near(account.seconds[TIME_STEPS], 15) && account.lost_steps == 0);
}

/* A clock that is set back gives no negative time, an old log no NaN. */
static void check_odd_logs(void)
{
    write_log("{\"event\":\"start\",\"step\":0,\"begun\":2000,\"time\":1990}\n"
              "{\"event\":\"step\",\"step\":1,\"step_seconds\":[2,null,\"x\"],\"time\":2010}\n"
              "{\"event\":\"start\",\"step\":1,\"begun\":1500,\"time\":1501}\n");
    struct time_account account = account_of_file();
    CHECK(account.seconds[TIME_START] == 1 && account.seconds[TIME_BETWEEN] == 0 && account.seconds[TIME_STEPS] == 2);
    CHECK(near(account.begun, 2000) && near(account.until, 2010));
    CHECK(time_account_seconds(&account, TIME_REST, 2001) == 0);
    write_log("{\"event\":\"start\",\"step\":0,\"time\":1000}\n"
              "{\"event\":\"step\",\"step\":1,\"step_seconds\":[2],\"time\":1002}\n"
              "{\"event\":\"validation\",\"step\":1,\"loss\":1,\"time\":1004}\n"
              "{\"event\":\"start\",\"step\":1,\"time\":1010}\n");
    account = account_of_file();
    CHECK(account.begun == 1000 && account.seconds[TIME_START] == 0 && account.seconds[TIME_BETWEEN] == 6);
    CHECK(account.seconds[TIME_VALIDATION] == 0 && account.seconds[TIME_STEPS] == 2);
    write_log("{\"event\":\"save\",\"step\":0}\n");
    account = account_of_file();
    CHECK(isnan(account.begun) && isnan(account.until) && account.programs == 0);
}

/* Standard output of report_run. Freed with free(). */
static char *report_text(void)
{
    char *page = memory_format("%s/report.html", folder), *out = memory_format("%s/out", folder), *text = NULL;
    fflush(stdout);
    const int kept = dup(STDOUT_FILENO);
    CHECK(freopen(out, "w", stdout) != NULL && report_run(folder, page) == ERROR_NONE);
    fflush(stdout);
    dup2(kept, STDOUT_FILENO);
    close(kept);
    size_t capacity = 0;
    FILE *file = fopen(out, "r");
    CHECK(getdelim(&text, &capacity, '\0', file) > 0);
    fclose(file);
    CHECK(unlink(out) == 0);
    file = fopen(page, "r");
    char *html = NULL;
    CHECK(getdelim(&html, &capacity, '\0', file) > 0);
    fclose(file);
    CHECK(strstr(html, "<h2>Where the time went since the first start</h2>") != NULL);
    CHECK(strstr(html,
                 "<tr><td>between programs</td><td class=\"number\">67.0</td><td class=\"number\">57.8</td></tr>") !=
          NULL);
    CHECK(unlink(page) == 0);
    free(html);
    free(page);
    free(out);
    return text;
}

static void check_shares(void)
{
    write_log(first_program);
    reopen(4, false);
    append(second_program);
    char *text = report_text();
    CHECK(strstr(text, "effective time     15.5 % of the 0:01:56 since the first start became steps that count; "
                       "2 steps were repeated\n") != NULL);
    CHECK(strstr(text, "steps that count                 18.0     15.5\n"
                       "lost steps, repeated              7.5      6.5\n"
                       "start-up                         14.0     12.1\n"
                       "validation                        5.0      4.3\n"
                       "waiting for checkpoints           1.5      1.3\n"
                       "between programs                 67.0     57.8\n"
                       "the rest                          3.0      2.6\n") != NULL);
    free(text);
}

int main(void)
{
    CHECK(mkdtemp(folder) != NULL);
    path = memory_format("%s/log.jsonl", folder);
    check_killed();
    check_validation();
    check_odd_logs();
    check_shares();
    CHECK(unlink(path) == 0 && rmdir(folder) == 0);
    free(path);
    return check_end();
}
