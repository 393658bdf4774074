/* `cistron report`: reads a run, and writes its page and text. */
#include "report/report.h"
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "file/path.h"
#include "file/run_folder.h"
#include "deck/deck.h"
#include "file/atomic_file.h"
#include "checkpoint/lock.h"
#include "report/report_private.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int save_page(const struct run_report *report, const char *path)
{
    struct atomic_file atomic;
    int code = atomic_file_open_output(&atomic, path);
    if (code != ERROR_NONE)
        return code;
    report_write_page(atomic.file, report);
    return atomic_file_close(&atomic, code);
}

/* Returns the keys of the deck, without those at a value that says nothing. */
static char *telling_keys(const struct deck *deck, const char *const keys[], int count)
{
    static const char *const silent[] = {"\"\"", "\"preset\"", "0"};
    const char *telling[8];
    int found = 0;
    for (int i = 0; i < count; i++) {
        char *value = deck_key_text(deck, keys[i]);
        bool tells = true;
        for (size_t s = 0; s < sizeof silent / sizeof *silent; s++)
            tells = tells && strcmp(value, silent[s]) != 0;
        if (tells)
            telling[found++] = keys[i];
        free(value);
    }
    return deck_keys_text(deck, telling, found, ", ");
}

/* Reads the run's deck; the log suffices without it. */
static void read_deck(struct run_report *report)
{
    static const char *const model[] = {"model.preset", "model.family", "model.layers", "model.hidden",
                                        "model.initialise_from"},
                             *const data[] = {"data.train", "data.valid"}, *const source[] = {"data.source"};
    struct deck *deck = deck_create();
    char *path = memory_format("%s/" RUN_DECK, report->folder);
    if (deck_read(deck, path, NULL, 0, NULL) == ERROR_NONE) {
        report->settings = deck_print_changed(deck);
        report->model = telling_keys(deck, model, sizeof model / sizeof *model);
        report->data = telling_keys(deck, data, sizeof data / sizeof *data);
        if (report->data[0] == '\0') {
            free(report->data);
            report->data = telling_keys(deck, source, 1);
        }
    } else {
        report->settings = memory_format("unknown: %s\n", error_message());
        report->model = memory_string("");
        report->data = memory_string("");
    }
    error_clear();
    free(path);
    memory_free(deck);
}

int report_run(const char *folder, const char *out)
{
    char *log = memory_format("%s/" RUN_LOG, folder);
    if (access(log, F_OK) != 0) {
        free(log);
        return error_user("%s: has no log.jsonl%s; name the output.folder of a run", folder, path_seen_from(folder));
    }
    struct run_report *report = memory_allocate(sizeof *report);
    report->folder = folder;
    int code = history_read(&report->history, log);
    if (code == ERROR_NONE) {
        curves_create(&report->curves, &report->history);
        report->verdict = verdict_of(&report->history, lock_is_held(folder));
        read_deck(report);
        report_gather_facts(report);
        history_warn(&report->history, log);
        code = save_page(report, out);
        report_print_text(report); /* also if the page could not be written */
        if (code == ERROR_NONE)
            log_print(stdout, "\nwritten: %s\n", out);
        curves_destroy(&report->curves);
    }
    for (int i = 0; i < report->fact_count; i++) {
        free(report->facts[i].name);
        free(report->facts[i].value);
    }
    free(report->verdict.text);
    free(report->settings);
    free(report->model);
    free(report->data);
    history_destroy(&report->history);
    memory_free(report);
    free(log);
    return code;
}
