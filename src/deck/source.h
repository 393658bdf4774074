/* Private to src/deck: prepares a deck's text for libconfig, and lists the faults in it.
 *
 * libconfig (1.5, and later in part) silently wraps integers of more than 32 bits, looks for @include names in the
 * working folder, names the wrong file if an included one does not parse, and stops at the first duplicate key. So the
 * text is scanned first:
 *   - @include is expanded into one flat text. The file and line of each of its lines are stored.
 *   - An integer of more than 32 bits needs a final L: a missing L is reported and added. An integer of more than 64
 *     bits becomes a real of the same size, which an int key refuses.
 *   - A key that is given again is renamed NAME*N, which is never a deck key, so that parsing continues. It is a fault,
 *     unless the earlier one was in an @include that has ended: then the later value wins, and a note says so. */
#ifndef DECK_SOURCE_H
#define DECK_SOURCE_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

enum { DECK_COMMAND_LINE = INT32_MAX /* used as a line number, after all lines of files */, DECK_MOST_FAULTS = 20 };

struct deck_source {
    char *text;               /* flat text, ended by '\0' */
    int64_t length, capacity; /* bytes of the text without its '\0'; bytes allocated */
    struct deck_place {
        int file, line;
    } * places; /* [lines]: origin of flat line i + 1 */
    int lines;
    struct deck_file {
        char *name;
        int from;             /* index of the file that includes it; -1 = none */
        struct stat identity; /* all 0 for a text in memory */
    } * files;                /* [file_count], one for each time that a file is included */
    int file_count;
    int64_t bytes; /* bytes of all files together */
    struct deck_setting {
        char *key;
        int line; /* flat line of its last occurrence */
    } * settings; /* [setting_count]: the keys found so far */
    int setting_count;
    int repeats; /* number of repeated keys */
    char *notes; /* NULL, or the lines of deck_read's notes, each ended by '\n' */
    struct deck_fault {
        int line; /* flat line */
        int order;
        char *text;
    } * faults;      /* [fault_count] */
    int fault_count; /* faults beyond DECK_MOST_FAULTS are only counted */
    bool broken;     /* do not parse: a file is missing, or a comment or string does not end */

    char *section;  /* "model." inside model : { */
    char *key;      /* the last key found, with its section */
    bool in_value;  /* between '=' or ':' and the value */
    int list_depth; /* inside ( ) or [ ], where nothing is a deck key */
};

/* Add the text of a file (`name` as for deck_locate), or a text in memory, in which @include is a fault. Faults in the
 * text are added to the list. For a file: returns ERROR_USER if it cannot be read or is not text, otherwise ERROR_NONE.
 */
int deck_source_add_file(struct deck_source *source, const char *name);
void deck_source_add_text(struct deck_source *source, const char *text, const char *origin);

/* Adds "FILE:LINE: message" (or "command line: message") to the list. `line` is a flat line or DECK_COMMAND_LINE. */
void deck_source_report(struct deck_source *source, int line, const char *format, ...) BASE_PRINTF(3, 4);

/* Adds a line to the notes; frees `line`. */
void deck_source_note(struct deck_source *source, char *line);

/* Returns ERROR_NONE if the list is empty, otherwise ERROR_USER with the whole list, in the order of lines, as message.
 */
int deck_source_verdict(struct deck_source *source);

void deck_source_destroy(struct deck_source *source);

#endif
