/* train.walltime is read as Slurm writes it, and stop and checkpoint requests of a run are recognised. */
#include "check.h"

#include "base/error.h"
#include "signalling.h"
#include "stores.h"
#include "setup/walltime.h"
#include "train/control.h"

#include <sys/stat.h>
#include <unistd.h>

static void test_walltime(void)
{
    static const struct {
        const char *text;
        double seconds; /* -1: refused */
    } cases[] = {
        {"", 0},
        {"90", 5400},
        {"1:30", 90},
        {"01:02:03", 3723},
        {"2-12", 216000},
        {"1-00:30", 88200},
        {"1-12:00:01", 129601},
        {"0", -1},
        {"-5", -1},
        {"1:2:3:4", -1},
        {"x", -1},
        {"10 min", -1},
        {"1-", -1},
        {"1:", -1},
        {"-", -1},
        {"1--2", -1},
        {"1:-2", -1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        double seconds = 0;
        int code = walltime_parse(cases[i].text, &seconds);
        if (cases[i].seconds < 0)
            CHECK(code == ERROR_USER && strstr(error_message(), cases[i].text) != NULL);
        else if (!CHECK(code == ERROR_NONE && seconds == cases[i].seconds))
            fprintf(stderr, "    \"%s\": %g seconds\n", cases[i].text, seconds);
        error_clear();
    }
}

static bool touch(const char *name)
{
    FILE *file = fopen(stores_path(name), "w");
    return file != NULL && fclose(file) == 0;
}

static void test_requests(void)
{
    struct comm *self = comm_self();
    struct run_control control;
    const char *why;
    control_open(&control, self, stores_path("."), 0, 0);
    CHECK(control_poll(&control, &why) == CONTROL_NONE);
    CHECK(touch("checkpoint"));
    control.last_look = -1e9; /* as if a second had gone by */
    CHECK(control_poll(&control, &why) == CONTROL_SAVE && strstr(why, "file") != NULL);
    control.last_look = -1e9;
    CHECK(control_poll(&control, &why) == CONTROL_NONE); /* the file is gone */
    signal_send(SIGUSR2, SIGNALS_SAVE);
    CHECK(!control_stopping(&control));
    CHECK(control_poll(&control, &why) == CONTROL_SAVE && strstr(why, "USR2") != NULL);
    CHECK(control_poll(&control, &why) == CONTROL_NONE);
    signal_send(SIGUSR2, SIGNALS_SAVE); /* while the checkpoint is written */
    control_saved(&control, 0);
    CHECK(control_poll(&control, &why) == CONTROL_NONE);
    CHECK(touch("checkpoint") && touch("stop"));
    control.last_look = -1e9;
    CHECK(control_stopping(&control));
    CHECK(control_poll(&control, &why) == CONTROL_STOP && strstr(why, "file stop") != NULL); /* without another look */
    CHECK(access(stores_path("stop"), F_OK) != 0);
    control_close(&control);

    control_open(&control, self, stores_path("."), 3600, 0);
    CHECK(control_poll(&control, &why) == CONTROL_SAVE); /* the file checkpoint waits still */
    CHECK(control_poll(&control, &why) == CONTROL_NONE);
    control_saved(&control, 1700);
    CHECK(control_poll(&control, &why) == CONTROL_NONE);
    control_written(&control, 1790); /* one that is under way, and another, would not leave a hundredth */
    CHECK(control_poll(&control, &why) == CONTROL_STOP && strstr(why, "walltime") != NULL);
    control_close(&control);

    control_open(&control, self, stores_path("."), 3600, 0);
    control.last_poll -= 2370; /* as if a step had taken so long; half as long again is within */
    CHECK(control_poll(&control, &why) == CONTROL_NONE);
    control.last_poll -= 2380;
    CHECK(control_poll(&control, &why) == CONTROL_STOP && strstr(why, "walltime") != NULL);
    control_close(&control);

    control_open(&control, self, stores_path("."), 360000, 0);
    control_written(&control, 179900); /* they leave a minute, which is enough */
    CHECK(control_poll(&control, &why) == CONTROL_NONE);
    control_written(&control, 179980);
    CHECK(control_poll(&control, &why) == CONTROL_STOP && strstr(why, "walltime") != NULL);
    control_close(&control);

    control_open(&control, self, stores_path("."), 0, 0);
    signal_send(SIGHUP, SIGNALS_STOP);
    CHECK(control_poll(&control, &why) == CONTROL_STOP && strstr(why, "signal") != NULL);
    control_close(&control);
    comm_destroy(self);
}

/* What cannot be removed would ask at every look. */
static void test_stubborn_files(void)
{
    struct comm *self = comm_self();
    struct run_control control;
    const char *why;
    CHECK(mkdir(stores_path("stop"), 0777) == 0 && mkdir(stores_path("checkpoint"), 0777) == 0);
    control_open(&control, self, stores_path("."), 0, 0);
    CHECK(!control_stopping(&control));
    CHECK(control_poll(&control, &why) == CONTROL_NONE);
    CHECK(rmdir(stores_path("stop")) == 0 && rmdir(stores_path("checkpoint")) == 0);
    control_close(&control);
    comm_destroy(self);
}

static void test_time(void)
{
    struct comm *self = comm_self();
    struct run_control control;
    const char *why;
    control_open(&control, self, stores_path("."), 0, 900);
    CHECK(control_poll(&control, &why) == CONTROL_NONE);
    control.next_save -= 901; /* as if so much time had gone by */
    CHECK(!control_stopping(&control));
    CHECK(control_poll(&control, &why) == CONTROL_SAVE && strstr(why, "every_minutes") != NULL);
    CHECK(control_poll(&control, &why) == CONTROL_NONE); /* also where none could be written */
    control.next_save -= 901;
    control_saved(&control, 100); /* by another request */
    CHECK(control_poll(&control, &why) == CONTROL_NONE);
    control.next_save -= 1990; /* 20 times what that took is more */
    CHECK(control_poll(&control, &why) == CONTROL_NONE);
    control.next_save -= 20;
    CHECK(control_poll(&control, &why) == CONTROL_SAVE);
    control_close(&control);

    control_open(&control, self, stores_path("."), 0, 0);
    control.next_save = 0;
    CHECK(control_poll(&control, &why) == CONTROL_NONE);
    control_close(&control);
    comm_destroy(self);
}

int main(void)
{
    signals_catch();
    stores_begin();
    test_walltime();
    test_time();
    test_stubborn_files();
    test_requests();
    stores_end();
    return check_end();
}
