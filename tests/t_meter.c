/* Outputs of a run are right byte for byte: TensorBoard's event files, also truncated at a restart; log.jsonl, also on
 * a full disk; readings of GPUs through a stand-in for NVML; verdicts. Pauses of validations and data waits are counted
 * in their step. */
#include "check.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "report/history.h"
#include "monitor/event_log.h"
#include "monitor/meter.h"
#include "monitor/tensorboard.h"
#include "report/verdict.h"

#include <dirent.h>
#include <dlfcn.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[] = "/tmp/cistron-meter-XXXXXX";

static unsigned char *read_whole(const char *path, int64_t *bytes)
{
    FILE *file = fopen(path, "rb");
    *bytes = 0;
    if (file == NULL)
        return NULL;
    unsigned char *data = memory_grow(NULL, 1 << 20);
    *bytes = (int64_t)fread(data, 1, 1 << 20, file);
    fclose(file);
    return data;
}

static void write_whole(const char *path, const void *data, int64_t bytes)
{
    FILE *file = fopen(path, "wb");
    CHECK(file != NULL && fwrite(data, 1, (size_t)bytes, file) == (size_t)bytes && fclose(file) == 0);
}

/* -- Event files ------------------------------------------------------------------------------------------------- */

static uint64_t number(const unsigned char *at, int bytes)
{
    uint64_t value = 0;
    for (int i = bytes - 1; i >= 0; i--)
        value = value << 8 | at[i];
    return value;
}

/* The records of a file: where each ends, and its step (0 = none); -1 when the file ends within one. */
static int read_steps(const char *path, int64_t ends[], int64_t steps[], int most)
{
    int64_t bytes, at = 0;
    int count = 0;
    unsigned char *data = read_whole(path, &bytes);
    while (at + 16 <= bytes && count < most) {
        int64_t length = (int64_t)number(data + at, 8);
        const unsigned char *event = data + at + 12;
        if (at + 16 + length > bytes)
            break;
        CHECK(number(data + at + 8, 4) == tensorboard_masked_crc(data + at, 8));
        CHECK(number(event + length, 4) == tensorboard_masked_crc(event, length));
        CHECK(event[0] == 0x09); /* the time, 8 bytes */
        steps[count] = event[9] != 0x10 ? 0 : event[10] < 0x80 ? event[10] : (event[10] & 0x7F) + 128 * event[11];
        at += 16 + length;
        ends[count++] = at;
    }
    free(data);
    return at == bytes ? count : -1;
}

/* The event file of a folder that stands at `index` in the order of names; freed by the caller. NULL behind the last.
 */
static char *event_file(const char *path, int index)
{
    struct dirent **names;
    int count = scandir(path, &names, NULL, alphasort);
    char *found = NULL;
    for (int i = 0; i < count; i++) {
        if (strncmp(names[i]->d_name, "events.out.tfevents.", 20) == 0 && index-- == 0)
            found = memory_format("%s/%s", path, names[i]->d_name);
        free(names[i]);
    }
    if (count >= 0)
        free(names);
    return found;
}

static void check_sums(void)
{
    /* the answers of RFC 3720, B.4, and the usual one */
    unsigned char zeros[32] = {0}, ones[32], rising[32];
    memset(ones, 0xFF, sizeof ones);
    for (int i = 0; i < 32; i++)
        rising[i] = (unsigned char)i;
    CHECK(tensorboard_crc("123456789", 9) == 0xE3069283);
    CHECK(tensorboard_crc(zeros, 32) == 0x8A9136AA);
    CHECK(tensorboard_crc(ones, 32) == 0x62A8AB43);
    CHECK(tensorboard_crc(rising, 32) == 0x46DD794E);
    CHECK(tensorboard_masked_crc("123456789", 9) == 0xC78AB0E5);
}

static void write_steps(const char *path, int64_t begin, int64_t first, int64_t last, int64_t every)
{
    struct tensorboard board;
    CHECK(tensorboard_open(&board, path, begin) == ERROR_NONE);
    for (int64_t step = first; step <= last; step += every)
        tensorboard_write(&board, step, (struct tensorboard_scalar[]){{"train/loss", 1.5}, {"b", NAN}}, 2);
    tensorboard_close(&board);
    CHECK(board.path == NULL);
    tensorboard_write(&board, 1, &(struct tensorboard_scalar){"b", 1}, 1); /* nothing is open: nothing happens */
}

static void check_event_files(void)
{
    char *path = memory_format("%s/tensorboard", folder);
    CHECK(tensorboard_truncate(path, 0) == ERROR_NONE); /* not there */
    write_steps(path, 0, 100, 300, 100);
    char *first = event_file(path, 0);
    int64_t bytes, ends[16], steps[16];
    unsigned char *data = read_whole(first, &bytes);

    /* the first record's head is that of every event file: 24 bytes follow */
    CHECK(bytes > 40 && memcmp(data, "\x18\0\0\0\0\0\0\0\xa3\x7f\x4b\x22", 12) == 0);
    CHECK(memcmp(data + 12 + 9,
                 "\x1a\x0d"
                 "brain.Event:2",
                 15) == 0);
    /* a scalar: step 100, a summary of 27 bytes: value {tag, float} twice, the second's tag of one byte */
    CHECK(memcmp(data + 40 + 12 + 9,
                 "\x10\x64\x2a\x1d"
                 "\x0a\x11\x0a\x0atrain/loss\x15\0\0\xc0\x3f"
                 "\x0a\x08\x0a\x01"
                 "b\x15",
                 4 + 19 + 6) == 0);
    CHECK(read_steps(first, ends, steps, 16) == 4);
    CHECK(steps[0] == 0 && steps[1] == 100 && steps[2] == 200 && steps[3] == 300);

    /* cut at any byte, the whole records in front of it stay; one flipped bit, and those in front of its record do */
    for (int64_t length = 0; length <= bytes; length++) {
        int whole = 0, left;
        while (whole < 4 && ends[whole] <= length)
            whole++;
        for (int flip = 0; flip < 2; flip++) {
            data[length < bytes ? length : 0] ^= (unsigned char)(flip << length % 8);
            write_whole(first, data, flip ? bytes : length);
            data[length < bytes ? length : 0] ^= (unsigned char)(flip << length % 8);
            if (flip && length == bytes)
                continue;
            CHECK(tensorboard_truncate(path, 1000) == ERROR_NONE);
            int64_t own_ends[16], own_steps[16];
            left = access(first, F_OK) == 0 ? read_steps(first, own_ends, own_steps, 16) : 0;
            CHECK(left == (whole < 2 ? 0 : whole)); /* a file that holds no step goes */
        }
    }

    /* going on from before step 300: the third point goes, a file behind it begins with the first step to be dropped */
    write_whole(first, data, bytes);
    CHECK(tensorboard_truncate(path, 299) == ERROR_NONE);
    write_steps(path, 200, 300, 500, 100);
    char *second = event_file(path, 1);
    CHECK(second != NULL);
    CHECK(read_steps(first, ends, steps, 16) == 3 && steps[2] == 200);
    CHECK(read_steps(second, ends, steps, 16) == 5);
    CHECK(steps[1] == 201 && steps[2] == 300 && steps[4] == 500);
    /* and from 100: the second file holds nothing that stays */
    CHECK(tensorboard_truncate(path, 100) == ERROR_NONE);
    CHECK(read_steps(first, ends, steps, 16) == 2 && access(second, F_OK) != 0);
    free(data);

    /* a text: a tensor (type 7, no dimensions, one string) for the plugin "text" */
    struct tensorboard board;
    CHECK(tensorboard_open(&board, path, 100) == ERROR_NONE);
    tensorboard_write_text(&board, 103, "run/end", "so");
    data = read_whole(board.path, &bytes);
    tensorboard_close(&board);
    CHECK(bytes > 40 + 12 + 35 && memcmp(data + bytes - 4 - 35,
                                         "\x2a\x21\x0a\x1f"
                                         "\x0a\x07run/end\x42\x08\x08\x07\x12\x00\x42\x02so"
                                         "\x4a\x0a\x0a\x06\x0a\x04text\x20\x02",
                                         35) == 0);
    free(second);
    free(first);
    free(data);
    free(path);
}

/* -- log.jsonl --------------------------------------------------------------------------------------------------- */

static void write_row(struct event_log *event_log, int64_t step, double loss, const double *seconds, int64_t count)
{
    event_log_begin(event_log, "step", step);
    event_log_real(event_log, "loss", loss, 17);
    event_log_real(event_log, "mean_loss", loss / 2, 17);
    event_log_real(event_log, "lr", 0.1, 17);
    event_log_reals(event_log, "step_seconds", seconds, count, 4);
    event_log_end(event_log);
}

static void write_start(struct event_log *event_log, int64_t step)
{
    event_log_begin(event_log, "start", step);
    event_log_integer(event_log, "steps_total", 1000);
    event_log_text(event_log, "host", "a \"host\"\\\n\xff"); /* not UTF-8 */
    event_log_end(event_log);
}

enum { MANY = 3000 }; /* steps of a row: a line of many kilobytes */

static void check_log(void)
{
    char *path = memory_format("%s/log.jsonl", folder);
    double *seconds = memory_grow(NULL, MANY * (int64_t)sizeof *seconds);
    for (int i = 0; i < MANY; i++)
        seconds[i] = 0.123456 + i;
    struct event_log event_log;
    event_log_open(&event_log, path, 0, false);
    write_start(&event_log, 0);
    write_row(&event_log, MANY, 1.0 / 3, seconds, MANY);
    write_row(&event_log, MANY + 1, NAN, seconds, 1);
    write_row(&event_log, MANY + 2, 1, seconds, 0);
    event_log_close(&event_log);

    struct run_history history;
    CHECK(history_read(&history, path) == ERROR_NONE);
    CHECK(history.start_count == 1 && history.row_count == 3 && history.step_count == MANY + 1);
    CHECK_STRING(history.starts[0].host, "a \"host\"\\\n?");
    CHECK(history.rows[0].numbers.loss == 1.0 / 3 && history.rows[0].numbers.mean_loss == 1.0 / 6);
    CHECK(isnan(history.rows[1].numbers.loss) && isnan(history.rows[0].numbers.memory));
    CHECK(history.step_seconds[1] == 1.123 && history.damaged == 0);
    history_destroy(&history);

    /* damage: a line in the middle, and the end of the last one; the next program goes on from the row in front */
    FILE *file = fopen(path, "a");
    CHECK(file != NULL);
    fputs("{\"event\":\"step\",\"st\xff\xff\n{\"event\":\"checkpoint\",\"step\":3001,\"digest\":\"00ab\"}\n{\"event\":"
          "\"step\"",
          file);
    fclose(file);
    CHECK(history_read(&history, path) == ERROR_NONE);
    CHECK(history.damaged == 1 && history.first_damaged == 5);
    CHECK(history.row_count == 3 && history.checkpoint_count == 1);
    CHECK_STRING(history.checkpoints[0].digest, "00ab");
    history_destroy(&history);
    event_log_open(&event_log, path, MANY + 1, false);
    write_start(&event_log, MANY + 1);
    write_row(&event_log, MANY + 2, 2, seconds, 1);
    event_log_close(&event_log);
    CHECK(history_read(&history, path) == ERROR_NONE);
    CHECK(history.damaged == 0 && history.start_count == 2 && history.row_count == 3);
    CHECK(history.starts[1].step == MANY + 1 && history.rows[1].step == MANY + 1 && history.rows[2].numbers.loss == 2);
    CHECK(history.checkpoint_count == 1 && history.step_count == MANY + 2);
    history_destroy(&history);

    /* a validation of the step that a program goes on from is made again, or stays */
    for (int again = 0; again < 2; again++) {
        event_log_open(&event_log, path, MANY + 2, again);
        for (int64_t step = MANY + 1; step <= MANY + 2 && again == 0; step++) {
            event_log_begin(&event_log, "validation", step);
            event_log_end(&event_log);
        }
        event_log_close(&event_log);
    }
    CHECK(history_read(&history, path) == ERROR_NONE);
    CHECK(history.row_count == 3 && history.validation_count == 1 && history.validations[0].step == MANY + 1);
    history_destroy(&history);

    free(seconds);
    free(path);
}

/* Lines of texts, whose step tells them apart, between two steps. */
static void write_notes(struct event_log *event_log, int64_t first, int64_t last)
{
    for (int64_t step = first; step <= last; step++) {
        event_log_begin(event_log, "save", step);
        event_log_text(event_log, "text", "a text that fills the line");
        event_log_end(event_log);
    }
}

static void check_notes(const char *path, int64_t first, int64_t last)
{
    struct run_history history;
    CHECK(history_read(&history, path) == ERROR_NONE);
    CHECK(history.damaged == 0 && history.note_count == last - first + 1);
    for (int64_t i = 0; i < history.note_count; i++)
        CHECK(history.notes[i].step == first + i);
    history_destroy(&history);
}

/* A disk that is full for a while, by a limit on the length of files: no line is lost, and none stands in two. */
static void check_full_disk(void)
{
    char *path = memory_format("%s/full.jsonl", folder);
    struct event_log event_log;
    struct rlimit limit;
    signal(SIGXFSZ, SIG_IGN);
    CHECK(getrlimit(RLIMIT_FSIZE, &limit) == 0);
    const struct rlimit whole = limit;
    event_log_open(&event_log, path, 0, false);
    write_notes(&event_log, 1, 2);
    for (int64_t first = 3; first <= 7; first += 4) { /* full twice, each time in the middle of a line */
        struct stat status;
        CHECK(stat(path, &status) == 0);
        limit.rlim_cur = (rlim_t)status.st_size + 10;
        CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
        write_notes(&event_log, first, first + 2);
        CHECK(event_log.failing && event_log.waiting_bytes > 0);
        CHECK(stat(path, &status) == 0 && (rlim_t)status.st_size == limit.rlim_cur);
        CHECK(setrlimit(RLIMIT_FSIZE, &whole) == 0);
        write_notes(&event_log, first + 3, first + 3);
        CHECK(!event_log.failing && event_log.waiting_bytes == 0);
    }
    event_log_close(&event_log);
    check_notes(path, 1, 10);
    free(path);

    /* one that cannot be opened: a folder has its name, and goes before the end */
    path = memory_format("%s/folder.jsonl", folder);
    CHECK(mkdir(path, 0777) == 0);
    event_log_open(&event_log, path, 0, false);
    CHECK(event_log.failing);
    write_notes(&event_log, 1, 3);
    CHECK(rmdir(path) == 0);
    event_log_close(&event_log);
    check_notes(path, 1, 3);

    /* and no memory without bounds: what is beyond them is counted */
    CHECK(unlink(path) == 0 && mkdir(path, 0777) == 0);
    event_log_open(&event_log, path, 0, false);
    write_notes(&event_log, 1, 300000);
    CHECK(event_log.lost_lines > 0 && event_log.waiting_bytes < 17 << 20);
    event_log_close(&event_log);
    free(path);
}

static void write_lines(const char *path, const char *text)
{
    write_whole(path, text, (int64_t)strlen(text));
}

/* What tells of programs stays where a run goes on from before it; the verdicts that a log's end leads to. */
static void check_verdicts(void)
{
#define LINE(EVENT, STEP, MORE) "{\"event\":\"" EVENT "\",\"step\":" STEP MORE ",\"time\":1}\n"
#define START LINE("start", "0", ",\"steps_total\":5000")
#define END(HOW) LINE("end", "1269", ",\"how\":\"" HOW "\",\"text\":\"why\"")
    static const struct {
        const char *lines, *word, *held;
    } cases[] = {
        {START, "killed", "running"},
        {START END("stopped"), "stopped", "running"},
        {START END("finished"), "finished", "running"},
        {START LINE("diverged", "7", ",\"text\":\"x\"") END("diverged"), "diverged", "running"},
        {START END("failed"), "failed", "running"},
        {START END("stopped") START, "killed", "running"},
        {START END("other"), "unknown", "running"},
        {"", "unknown", "running"},
        {START LINE("checkpoint", "5000", "") LINE("timers", "5000", ",\"timers\":[{\"name\":\"all\"}]"), "finished",
         "running"}, /* of a version that wrote no end */
        {START LINE("timers", "7", ",\"timers\":[{\"name\":\"all\"}]"), "stopped", "running"},
    };
    char *path = memory_format("%s/verdict.jsonl", folder);
    struct run_history history;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_lines(path, cases[i].lines);
        CHECK(history_read(&history, path) == ERROR_NONE);
        for (int held = 0; held < 2; held++) {
            struct run_verdict verdict = verdict_of(&history, held);
            CHECK_STRING(verdict.word, held ? cases[i].held : cases[i].word);
            CHECK(strcmp(cases[i].word, "stopped") != 0 || strchr(verdict.text, ':') == NULL || held || i != 1 ||
                  strncmp(verdict.text, "at step 1,269 of 5,000: why", 27) == 0);
            free(verdict.text);
        }
        history_destroy(&history);
    }

    struct event_log event_log;
    write_lines(path, START LINE("step", "7", ",\"loss\":1")
                          LINE("diverged", "7", ",\"text\":\"x\",\"last_steps\":[{\"step\":7,\"loss\":null}]")
                              LINE("skipped", "7", ",\"text\":\"x\"") LINE("end", "7", ",\"how\":\"diverged\""));
    event_log_open(&event_log, path, 5, false);
    CHECK(!event_log.unfinished);
    event_log_begin(&event_log, "start", 5);
    event_log_end(&event_log);
    event_log_close(&event_log);
    event_log_open(&event_log, path, 5, false);
    CHECK(event_log.unfinished);
    event_log_close(&event_log);
    CHECK(history_read(&history, path) == ERROR_NONE);
    CHECK(history.row_count == 0 && history.start_count == 2 && history.end_count == 1 && history.note_count == 1);
    CHECK(history.last_count == 1 && history.last_steps[0].step == 7 && isnan(history.last_steps[0].numbers.loss));
    history_destroy(&history);
    free(path);
}

/* A log that somebody wrote: what stands in it cannot move a terminal's cursor. */
static void check_hostile_log(void)
{
    struct run_history history;
    char *path = memory_format("%s/hostile.jsonl", folder);
    FILE *file = fopen(path, "w");
    fputs("{\"event\":\"saved\",\"step\":1,\"text\":\"\\u001b[2J so\\u0007\"}\n", file);
    fputs("{\"event\":\"step\",\"step\":9223372036854775808}\n", file);
    CHECK(fclose(file) == 0);
    CHECK(history_read(&history, path) == ERROR_NONE);
    if (CHECK(history.note_count == 1 && history.damaged == 1))
        CHECK_STRING(history.notes[0].text, "\\x1b[2J so\\x07");
    history_destroy(&history);
    free(path);
}

/* -- GPUs -------------------------------------------------------------------------------------------------------- */

static const unsigned char talks[NVML_UUID_BYTES] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

/* By tests/nvml.c, which is what the name of NVML's library leads to once it is loaded. */
static void check_nvml(void)
{
    unsigned char uuid[NVML_UUID_BYTES];
    struct nvml nvml;
    struct nvml_reading reading;
    /* no library, or not this GPU; in a child, since a library of this name that is loaded is taken again */
    pid_t child = fork();
    if (child == 0) {
        nvml_open(&nvml, talks);
        nvml_read(&nvml, &reading);
        _exit(!(reading.index == -1 && isnan(reading.power) && isnan(reading.energy)));
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);

    char *path = memory_format("%s/tests/nvml.so", getenv("abs_top_builddir"));
    CHECK(dlopen(path, RTLD_NOW) != NULL);
    free(path);
    nvml_open(&nvml, talks);
    nvml_read(&nvml, &reading);
    CHECK(reading.index == 3 && reading.power == 612.345 && reading.temperature == 58);
    CHECK(reading.sm_clock == 1755e6 && reading.memory_clock == 2619e6);
    CHECK(reading.throttles == (1u << NVML_THROTTLE_POWER_CAP | 1u << NVML_THROTTLE_THERMAL));
    CHECK(reading.energy == 500);
    nvml_read(&nvml, &reading);
    CHECK(reading.energy == 1000);

    memcpy(uuid, talks, sizeof uuid);
    uuid[0] = 0x10;
    nvml_open(&nvml, uuid);
    nvml_read(&nvml, &reading);
    CHECK(reading.index == 4 && reading.throttles == 0 && isnan(reading.power) && isnan(reading.sm_clock) &&
          isnan(reading.memory_clock) && isnan(reading.temperature) && isnan(reading.energy));
    uuid[15] = 0;
    nvml_open(&nvml, uuid);
    nvml_read(&nvml, &reading);
    CHECK(reading.index == -1);
}

static const unsigned char *identity(struct executor *executor)
{
    (void)executor;
    return talks;
}

static int64_t occupied(struct executor *executor)
{
    static int64_t bytes = (int64_t)3 << 30;
    (void)executor;
    return bytes -= 1 << 30;
}

static bool holds(const char *path, const char *text, int times)
{
    int64_t bytes;
    char *whole = (char *)read_whole(path, &bytes);
    int found = 0;
    whole[bytes - 1] = '\0';
    for (const char *at = whole; (at = strstr(at, text)) != NULL; at++)
        found++;
    if (found != times)
        fprintf(stderr, "%s: %d times instead of %d: %s\n%s\n", path, found, times, text, whole);
    free(whole);
    return found == times;
}

/* Two rows of a run on such a GPU, in less than a second. */
static void check_gpu_run(void)
{
    const struct executor_class class = {.name = "cuda"};
    const struct executor_device device = {.identity = identity, .occupied = occupied};
    struct executor executor = {.class = &class, .device = &device};
    struct comm *world = comm_self();
    const struct meter_settings settings = {.folder = folder,
                                            .steps_total = 2,
                                            .tensorboard = true,
                                            .prometheus = "gpu.prom",
                                            .row_tokens = 64,
                                            .planned = 12345,
                                            .threads = 1,
                                            .executor = &executor};
    struct run_meter *meter = memory_allocate(sizeof *meter);
    char *log = memory_format("%s/log.jsonl", folder), *metrics = memory_format("%s/gpu.prom", folder);
    unlink(log);
    meter_open(meter, world, &settings);
    meter->marked -= 100; /* as if it had been so long ago, with a validation that is no time of the step */
    meter_add(meter, METER_VALIDATION, 100);
    meter->started -= 7200;
    meter->watch.row = clock_seconds(); /* rows follow each other at once, however long it took to come here */
    char *table;
    size_t bytes;
    FILE *const standard = stdout;
    stdout = open_memstream(&table, &bytes);
    for (int64_t step = 1; step <= 2; step++) {
        const struct meter_row row = {
            step, 2, 1e-3, 1, 7, 640 * step, 600 * step, meter_pause(meter) + 1, 0.25 * (double)(step - 1)};
        meter_count(meter, &row, 2e3, 1e3, &(struct meter_work){600, 704});
        meter_step(meter, &row);
    }
    fclose(stdout);
    stdout = standard;
    CHECK(strstr(table, " 2:00:00\n") != NULL && strstr(table, " 0:00:00\n") != NULL); /* time left */
    free(table);
    CHECK(holds(metrics, "cistron_finished{", 1) && holds(metrics, "\"} 0\n", 4)); /* three reasons, and not finished */
    const double apart = meter->watch.apart, saves = meter->watch.work[STRAGGLER_SAVE];
    meter_add(meter, METER_WRITE, 100); /* by a thread: the steps lose nothing */
    meter_add(meter, METER_LOAD, 100);
    CHECK(meter->watch.apart == apart && meter->watch.work[STRAGGLER_SAVE] == saves && meter->idle == 0);
    meter_note(meter, 1, "save_failed", "of an earlier step");
    meter_end(meter, ERROR_NONE, "2 steps");
    meter_close(meter);
    CHECK(holds(log, "\"planned_memory\":12345,", 1) && holds(log, "\"event\":\"end\",\"step\":2,", 1));
    struct run_history history;
    CHECK(history_read(&history, log) == ERROR_NONE && history.row_count == 2);
    for (int64_t i = 0; i < history.row_count; i++) {
        const struct history_row *row = &history.rows[i];
        CHECK(row->numbers.seconds >= 1 && row->numbers.seconds < 50 && row->numbers.data_wait == 0.25 * (double)i);
        CHECK(row->step == i + 1 && row->numbers.loss == 2 && row->numbers.learning_rate == 1e-3 &&
              row->numbers.grad_norm == 1);
        CHECK(row->numbers.outliers == 7 && row->numbers.tokens == 640 * row->step &&
              row->numbers.unpadded == 600 * row->step);
    }
    history_destroy(&history);
    CHECK(holds(log, "\"grad_norm_outliers\":7,", 2) && holds(metrics, "cistron_gradient_norm_outliers_total{", 1));
    CHECK(holds(log, "\"consumed_tokens\":1280,\"consumed_unpadded_tokens\":1200,\"consumed_samples\":20,", 1));
    CHECK(holds(log,
                "\"device_memory\":1073741824,\"device_memory_mean\":1073741824,"
                "\"device_memory_max\":1073741824,\"device_memory_peak\":2147483648",
                1));
    CHECK(
        holds(log,
              "\"gpu_power\":[612.345],\"gpu_sm_clock\":[1755000000],\"gpu_memory_clock\":[2619000000],"
              "\"gpu_temperature\":[58],\"gpu_energy\":[500],\"gpu_throttles\":[{\"rank\":0,\"reason\":\"power_cap\"},"
              "{\"rank\":0,\"reason\":\"thermal\"}],",
              1));
    CHECK(holds(log, "gpu_power", 1));
    CHECK(holds(metrics, ",gpu=\"3\"} 612.34500000000003\n", 1));
    CHECK(holds(metrics, ",gpu=\"3\",reason=\"power_cap\"} 1\n", 1));
    CHECK(holds(metrics, ",gpu=\"3\",reason=\"hot\"} 0\n", 1));
    CHECK(holds(metrics, "cistron_device_memory_max_bytes{", 1));
    comm_destroy(world);
    memory_free(meter);
    free(log);
    free(metrics);
}

/* The name of a folder as a label, and what is known before the first row. */
static void check_label(void)
{
    struct prometheus prometheus;
    char *metrics = memory_format("%s/label.prom", folder);
    prometheus_open(&prometheus, "a\"b\\c\nd", metrics);
    prometheus_end(&prometheus, &(struct shown_row){.numbers = {.step = 7, .loss = 1}}, 85);
    prometheus_close(&prometheus);
    CHECK(holds(metrics, "\ncistron_exit_code{run=\"a\\\"b\\\\c\\nd\"} 85", 1));
    CHECK(holds(metrics, "\ncistron_step{run=\"a\\\"b\\\\c\\nd\"} 7\n", 1));
    CHECK(holds(metrics, "cistron_tokens_total", 0) && holds(metrics, "cistron_loss", 0));
    free(metrics);
}

/* Step `step` is trained, and no row is due. */
static struct meter_row count_step(struct run_meter *meter, int64_t step)
{
    const struct meter_row row = {step, 2, 1e-3, 1, 0, 640 * step, 600 * step, 1, 0};
    meter_count(meter, &row, 2e3, 1e3, &(struct meter_work){600, 704});
    return row;
}

/* The step at which a run diverges has a row: also where a line told of it before, and behind a return. */
static void check_diverged_row(void)
{
    const struct executor_class class = {.name = "cpu"};
    struct executor executor = {.class = &class};
    struct comm *world = comm_self();
    const struct meter_settings settings = {
        .folder = folder, .steps_total = 9, .prometheus = "", .row_tokens = 64, .threads = 1, .executor = &executor};
    struct run_meter *meter = memory_allocate(sizeof *meter);
    char *log = memory_format("%s/log.jsonl", folder);
    unlink(log);
    meter_open(meter, world, &settings);
    struct meter_row row = count_step(meter, 1);
    meter_step(meter, &row);
    count_step(meter, 2);
    row = count_step(meter, 3);
    meter_note(meter, 3, "skipped", "a note of the step comes first");
    meter_diverged(meter, &row, "diverged");
    CHECK(holds(log, "\"event\":\"step\",\"step\":3,", 1) && holds(log, "\"event\":\"step\"", 2));
    meter_rewind(meter, 1, false, 0);
    row = count_step(meter, 2);
    meter_diverged(meter, &row, "diverged again");
    CHECK(holds(log, "\"event\":\"step\",\"step\":2,", 1) && holds(log, "\"event\":\"step\"", 2));
    meter_diverged(meter, &row, "shown already");
    CHECK(holds(log, "\"event\":\"step\"", 2));
    meter_close(meter);
    comm_destroy(world);
    memory_free(meter);
    free(log);
}

int main(void)
{
    CHECK(mkdtemp(folder) != NULL);
    check_sums();
    check_event_files();
    check_log();
    check_full_disk();
    check_verdicts();
    check_hostile_log();
    check_nvml();
    check_gpu_run();
    check_diverged_row();
    check_label();
    char *remove = memory_format("rm -r %s", folder);
    CHECK(system(remove) == 0);
    free(remove);
    return check_end();
}
