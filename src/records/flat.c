#include "records/flat.h"
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "records/flat_location.h"
#include "records/line_reader.h"
#include "records/source.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_BYTES = 256, SPACES_OF_QUALIFIERS = 21 };

/* Text that grows as needed. */
struct growing {
    char *text;
    int64_t bytes, capacity;
};

struct feature {
    int64_t location, bytes; /* in flat_reader.locations, without blanks, followed by a zero */
};

struct flat_reader {
    struct line_reader lines;
    const struct record_settings *settings;
    bool embl;
    char name[NAME_BYTES]; /* of the entry */
    bool in_features, in_feature, in_sequence;
    struct growing letters, locations, out; /* of the entry; of its features; of a feature's record */
    struct growing record_name;
    struct feature *features; /* [count] */
    int64_t count, capacity, next;
    bool has_letters, has_entry; /* not returned yet: the entry's letters; its features from `next` on */
    int64_t dropped;             /* features of locations that are not supported */
};

static void grow(struct growing *g, int64_t bytes)
{
    if (g->bytes + bytes > g->capacity) {
        g->capacity = 2 * (g->bytes + bytes);
        g->text = memory_grow(g->text, g->capacity);
    }
}

static void append(struct growing *g, const char *text, int64_t bytes)
{
    grow(g, bytes + 1);
    memcpy(g->text + g->bytes, text, (size_t)bytes);
    g->bytes += bytes;
    g->text[g->bytes] = '\0';
}

static int create(void **reader, struct record_source *source, const struct record_settings *settings, bool embl)
{
    struct flat_reader *flat = memory_allocate(sizeof *flat);
    line_reader_create(&flat->lines, source);
    flat->settings = settings;
    flat->embl = embl;
    *reader = flat;
    return ERROR_NONE;
}

static int create_genbank(void **reader, struct record_source *source, const struct record_settings *settings)
{
    return create(reader, source, settings, false);
}

static int create_embl(void **reader, struct record_source *source, const struct record_settings *settings)
{
    return create(reader, source, settings, true);
}

static void destroy(void *reader)
{
    struct flat_reader *flat = reader;
    if (flat == NULL)
        return;
    line_reader_destroy(&flat->lines);
    free(flat->letters.text);
    free(flat->locations.text);
    free(flat->out.text);
    free(flat->record_name.text);
    free(flat->features);
    memory_free(flat);
}

/* -- Lines of an entry -------------------------------------------------------------------------------------------- */

static bool begins(const char *line, int64_t length, const char *word)
{
    const int64_t bytes = (int64_t)strlen(word);
    return length >= bytes && memcmp(line, word, (size_t)bytes) == 0;
}

/* Sets the entry's name to the first word of line[from..]; it ends at a blank or a semicolon. */
static int take_name(struct flat_reader *flat, const char *line, int64_t length, int64_t from)
{
    int64_t bytes = 0;
    while (from < length && line[from] == ' ')
        from++;
    while (from + bytes < length && line[from + bytes] != ' ' && line[from + bytes] != ';' && bytes < NAME_BYTES - 1) {
        if ((unsigned char)line[from + bytes] < ' ')
            return line_reader_refuse(&flat->lines, "a control character in the name of an entry");
        bytes++;
    }
    memcpy(flat->name, line + from, (size_t)bytes);
    flat->name[bytes] = '\0';
    return ERROR_NONE;
}

/* The place of a line's text after the feature table's prefix, "FT" or blanks. */
static bool is_feature_line(const struct flat_reader *flat, const char *line, int64_t length)
{
    return flat->embl ? begins(line, length, "FT   ") : flat->in_features && begins(line, length, "     ");
}

/* A line of the feature table: a key and a location, more of the location, or a qualifier. */
static void take_feature_line(struct flat_reader *flat, const char *line, int64_t length)
{
    enum { KEY = 5 };
    const char *wanted = flat->settings->feature;
    int64_t at = SPACES_OF_QUALIFIERS;
    if (wanted == NULL || length <= at)
        return;
    if (line[KEY] != ' ') {
        const int64_t bytes = (int64_t)strlen(wanted);
        flat->in_feature = begins(line + KEY, length - KEY, wanted) && line[KEY + bytes] == ' ';
        if (flat->in_feature && flat->count == flat->capacity) {
            flat->capacity = 2 * flat->capacity + 64;
            flat->features = memory_grow(flat->features, flat->capacity * (int64_t)sizeof *flat->features);
        }
        if (flat->in_feature)
            flat->features[flat->count++] = (struct feature){flat->locations.bytes, 0};
    } else if (line[at] == '/') {
        flat->in_feature = false;
    }
    if (!flat->in_feature)
        return;
    if (flat->features[flat->count - 1].bytes > 0)
        flat->locations.bytes--; /* the zero */
    for (; at < length; at++)
        if (line[at] != ' ')
            append(&flat->locations, &line[at], 1);
    append(&flat->locations, "", 1);
    flat->features[flat->count - 1].bytes = flat->locations.bytes - flat->features[flat->count - 1].location;
}

/* A line of letters, between blanks and numbers. */
static int take_letters(struct flat_reader *flat, char *line, int64_t length)
{
    unsigned char wrong;
    int64_t kept = 0;
    for (int64_t i = 0; i < length; i++)
        if (!isdigit((unsigned char)line[i]))
            line[kept++] = (char)toupper((unsigned char)line[i]);
    if (!record_clean(line, &kept, &wrong))
        return line_reader_refuse(&flat->lines, "a byte that is not a letter of a sequence");
    append(&flat->letters, line, kept);
    return ERROR_NONE;
}

static int take_line(struct flat_reader *flat, char *line, int64_t length)
{
    if (flat->in_sequence)
        return take_letters(flat, line, length);
    if (is_feature_line(flat, line, length)) {
        take_feature_line(flat, line, length);
        return ERROR_NONE;
    }
    flat->in_features = flat->in_feature = false;
    if (flat->embl) {
        flat->in_sequence = begins(line, length, "SQ   ");
        /* of several lines of accessions the first counts */
        return begins(line, length, "AC   ") && flat->name[0] == '\0' ? take_name(flat, line, length, 5) : ERROR_NONE;
    }
    flat->in_features = begins(line, length, "FEATURES");
    flat->in_sequence = begins(line, length, "ORIGIN");
    if (begins(line, length, "VERSION ") || (begins(line, length, "ACCESSION ") && flat->name[0] == '\0'))
        return take_name(flat, line, length,
                         (int64_t)strlen(begins(line, length, "VERSION ") ? "VERSION" : "ACCESSION"));
    return ERROR_NONE;
}

/* Reads the next entry. *more: there is one. */
static int read_entry(struct flat_reader *flat, bool *more)
{
    const char *first = flat->embl ? "ID " : "LOCUS ";
    char *line, own[NAME_BYTES] = "";
    int64_t length;
    int code;
    do
        code = line_reader_next(&flat->lines, &line, &length);
    while (code == ERROR_NONE && line != NULL && length == 0);
    *more = line != NULL;
    if (code != ERROR_NONE || line == NULL)
        return code;
    if (!begins(line, length, first))
        return line_reader_refuse(&flat->lines, flat->embl ? "an EMBL entry must begin with a line ID"
                                                           : "a GenBank entry must begin with a line LOCUS");
    code = take_name(flat, line, length, (int64_t)strlen(first));
    strcpy(own, flat->name);
    flat->name[0] = '\0';
    flat->in_features = flat->in_feature = flat->in_sequence = false;
    flat->letters.bytes = flat->locations.bytes = flat->count = flat->next = 0;
    while (code == ERROR_NONE) {
        code = line_reader_next(&flat->lines, &line, &length);
        if (code == ERROR_NONE && line == NULL)
            code = line_reader_refuse(&flat->lines, "the file ends within an entry, which must end with //");
        if (code != ERROR_NONE || begins(line, length, "//"))
            break;
        code = take_line(flat, line, length);
    }
    if (flat->name[0] == '\0')
        strcpy(flat->name, own);
    return code;
}

/* -- Records ------------------------------------------------------------------------------------------------------ */

/* Makes the record of the next feature whose location is supported. *found: there is one. */
static int take_feature(struct flat_reader *flat, bool *found)
{
    for (*found = false; flat->next < flat->count && !*found; flat->next++) {
        const char *location = flat->locations.text + flat->features[flat->next].location;
        flat->out.bytes = 0;
        grow(&flat->out, 2 * flat->letters.bytes + 1);
        const enum location_result result =
            flat->letters.bytes == 0 ? LOCATION_OTHER /* an entry without a sequence */
                                     : location_letters(location, flat->letters.text, flat->letters.bytes,
                                                        flat->out.text, &flat->out.bytes, flat->out.capacity);
        if (result == LOCATION_BEYOND)
            return error_user("%s: entry %s: the location %.60s of a feature is beyond its %lld letters",
                              source_name(flat->lines.source), flat->name, location, (long long)flat->letters.bytes);
        if (result == LOCATION_OTHER && flat->dropped++ == 0)
            log_warn("%s: entry %s: the location %.60s is not supported; features with such locations are dropped",
                     source_name(flat->lines.source), flat->name, location);
        *found = result == LOCATION_GOOD;
        if (!*found)
            continue;
        flat->record_name.bytes = 0;
        append(&flat->record_name, flat->name, (int64_t)strlen(flat->name));
        append(&flat->record_name, ":", 1);
        append(&flat->record_name, location, (int64_t)strlen(location));
    }
    return ERROR_NONE;
}

static int next(void *reader, struct record_piece *piece)
{
    struct flat_reader *flat = reader;
    const bool features = flat->settings->feature != NULL;
    bool more = true, found = !features;
    struct growing *letters = features ? &flat->out : &flat->letters;
    if (flat->has_letters && letters->bytes > 0) {
        flat->has_letters = false;
        *piece = (struct record_piece){RECORD_SEQUENCE, letters->text, letters->bytes};
        return ERROR_NONE;
    }
    int code = features && flat->has_entry ? take_feature(flat, &found) : ERROR_NONE;
    const bool again = features && found;
    while (code == ERROR_NONE && more && !again) {
        code = read_entry(flat, &more);
        flat->has_entry = more;
        if (code == ERROR_NONE && more && features)
            code = take_feature(flat, &found);
        if (found)
            break;
    }
    if (code != ERROR_NONE)
        return code;
    flat->has_letters = more;
    if (!more)
        *piece = (struct record_piece){.kind = RECORD_END};
    else if (features)
        *piece = (struct record_piece){RECORD_NAME, flat->record_name.text, flat->record_name.bytes};
    else
        *piece = (struct record_piece){RECORD_NAME, flat->name, (int64_t)strlen(flat->name)};
    return ERROR_NONE;
}

const struct record_class genbank_class = {"genbank", create_genbank, next, destroy, false};
const struct record_class embl_class = {"embl", create_embl, next, destroy, false};

bool genbank_begins(const uint8_t *head, int64_t bytes)
{
    return begins((const char *)head, bytes, "LOCUS  ");
}

/* ID, three blanks, and a name, followed by semicolons and attributes. */
bool embl_begins(const uint8_t *head, int64_t bytes)
{
    const uint8_t *newline = memchr(head, '\n', (size_t)bytes);
    const int64_t length = newline != NULL ? newline - head : bytes;
    return begins((const char *)head, bytes, "ID   ") && memchr(head, ';', (size_t)length) != NULL;
}
