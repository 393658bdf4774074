/* Inside src/deck: a deck's text made ready for libconfig, and the list of what is wrong with it.
 *
 * libconfig (1.5, and later in part) wraps integers past 32 bits without a word, looks for @include names in the
 * working folder, names the wrong file when an included one does not parse, and stops at the first duplicate key. So
 * the text is scanned first: @include is expanded into one flat text whose every line remembers its file and line;
 * integers that do not fit are reported and written so that libconfig reads their true value; a repeated key is renamed
 * NAME*N, a name no deck key has, so that parsing goes on. Such a key is a fault, unless it stands behind an @include
 * that gave it before: then it wins, being the later one, and a note says so. */
#ifndef DECK_SOURCE_H
#define DECK_SOURCE_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

enum { DECK_COMMAND_LINE = INT32_MAX /* in place of a flat line: after all lines of files */, DECK_MOST_FAULTS = 20 };

struct deck_source {
    char *text;           /* flat text, ended by '\0' */
    int64_t length, room; /* bytes of the text without its '\0'; bytes allocated */
    struct deck_place {
        int file, line;
    } * places; /* [lines]: where flat line i + 1 comes from */
    int lines;
    struct deck_file {
        char *name;
        int from;             /* the file whose @include took it in; -1 = none */
        struct stat identity; /* all 0 for a text */
    } * files;                /* [file_count], one for each time that a file is taken in */
    int file_count;
    int64_t bytes; /* of all files */
    struct deck_setting {
        char *key;
        int line; /* flat; of the last time */
    } * settings; /* [setting_count]: the keys met so far */
    int setting_count;
    int repeats; /* keys that were met before */
    char *notes; /* NULL or lines of deck_read's notes, '\n' behind each */
    struct deck_fault {
        int line; /* flat */
        int order;
        char *text;
    } * faults;      /* [fault_count] */
    int fault_count; /* those beyond DECK_MOST_FAULTS are counted, not kept */
    bool broken;     /* not worth parsing: a file is missing, a comment or string does not end */

    char *section;  /* "model." inside model : { */
    char *key;      /* the last key met, with its section */
    bool in_value;  /* between '=' or ':' and the value */
    int list_depth; /* inside ( ) or [ ], where nothing is a deck key */
};

/* Add a file's text (`name` as deck_locate takes it), or a text, in which @include is a fault. The file: ERROR_USER
 * when it cannot be read or is no text, else ERROR_NONE; faults inside go to the list. */
int deck_source_add_file(struct deck_source *source, const char *name);
void deck_source_add_text(struct deck_source *source, const char *text, const char *origin);

/* Put "FILE:LINE: message" (or "command line: message") on the list. */
void deck_source_report(struct deck_source *source, int line, const char *format, ...) BASE_PRINTF(3, 4);

/* ERROR_NONE when the list is empty, else ERROR_USER with all of it as the message, in the order of the lines. */
int deck_source_verdict(struct deck_source *source);

void deck_source_destroy(struct deck_source *source);

#endif
