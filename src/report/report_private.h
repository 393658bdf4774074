/* Declarations shared by the files of the report. */
#ifndef REPORT_REPORT_PRIVATE_H
#define REPORT_REPORT_PRIVATE_H

#include "report/curves.h"
#include "report/history.h"
#include "report/verdict.h"

#include <stdio.h>

enum { MAXIMUM_FACTS = 40 };

struct report_fact {
    char *name, *value; /* owned */
};

struct run_report {
    const char *folder;
    struct run_history history;
    struct run_verdict verdict;
    char *settings;     /* result of deck_print_changed, or why it is missing */
    char *model, *data; /* keys of the deck that say what is trained on what; "": the deck is missing */
    struct report_fact facts[MAXIMUM_FACTS];
    int fact_count;
    struct loss_curves curves;
};

/* Makes the facts, each a name and a sentence, from what was read before. */
void report_gather_facts(struct run_report *report);
/* Returns a date and time in UTC. Freed with free(). */
char *report_date_text(double seconds);
/* Returns the wall-clock seconds from the first start to the last line; NaN: the log does not have them. */
double report_wall_clock(const struct time_account *account);

/* Write the whole report, as an HTML page or as text to standard output. */
void report_write_page(FILE *file, const struct run_report *report);
void report_print_text(const struct run_report *report);

#endif
