#include "records/parquet_footer.h"
#include "base/error.h"
#include "base/memory.h"
#include "records/source.h"
#include "records/thrift.h"

#include <stdlib.h>
#include <string.h>

enum { MAGIC_BYTES = 4, TAIL_BYTES = 8, NAME_BYTES = 1 << 10, NAMES_LISTED = 8 };
enum { TYPE_GROUP = -1, TYPE_INT32 = 1, TYPE_INT64 = 2, TYPE_FLOAT = 4, TYPE_DOUBLE = 5, TYPE_BYTES = 6, TYPES = 8 };
enum { REPETITION_OPTIONAL = 1, REPETITION_REPEATED = 2 };
enum { CONVERTED_MAP = 1, CONVERTED_LIST = 3, CONVERTED_DECIMAL = 5, CONVERTED_TIMESTAMP_MICROS = 10 };
enum { CONVERTED_UINT_8 = 11, CONVERTED_UINT_64 = 14 };
enum { LOGICAL_MAP = 2, LOGICAL_LIST = 3, LOGICAL_DECIMAL = 5, LOGICAL_TIMESTAMP = 8, LOGICAL_INTEGER = 10 };

/* A group or a column of the schema. */
struct element {
    const char *text; /* name, in the footer's bytes */
    int64_t length;
    int64_t type, children;
    int64_t parent, place; /* place: index of a column among all columns */
    int depth, definition, repetition;
    bool repeated, optional;
    bool list, map; /* a group of this kind has one repeated child without meaning of its own */
    bool silent;    /* is that child, or the only child of the repeated child of a list */
    bool quantity;  /* an integer that encodes a decimal number, a date or a time */
    bool no_sign;
};

struct parquet_footer {
    struct record_source *source;
    uint8_t *bytes;
    int64_t limit; /* offset of the footer in the file, where pages end */
    struct element *elements;
    int64_t element_count, columns;
    struct thrift groups; /* at the next row group */
    int64_t groups_left, group;
};

static int damaged(const struct parquet_footer *footer, const char *what)
{
    return error_user("%s: its Parquet footer is damaged: %s", source_name(footer->source), what);
}

/* -- Schema ------------------------------------------------------------------------------------------------------ */

static void read_integer_type(struct thrift *thrift, const struct thrift_field *outer, struct element *element)
{
    struct thrift_field field = {0};
    if (!thrift_struct(thrift, outer))
        return;
    while (thrift_next(thrift, &field))
        if (field.number == 2)
            element->no_sign = !thrift_truth(thrift, &field);
        else
            thrift_skip(thrift, &field);
}

static void read_logical(struct thrift *thrift, const struct thrift_field *outer, struct element *element)
{
    struct thrift_field field = {0};
    if (!thrift_struct(thrift, outer))
        return;
    while (thrift_next(thrift, &field)) { /* union: exactly one field */
        element->list |= field.number == LOGICAL_LIST;
        element->map |= field.number == LOGICAL_MAP;
        element->quantity |= field.number >= LOGICAL_DECIMAL && field.number <= LOGICAL_TIMESTAMP;
        if (field.number == LOGICAL_INTEGER)
            read_integer_type(thrift, &field, element);
        else
            thrift_skip(thrift, &field);
    }
}

static struct element read_element(struct thrift *thrift)
{
    struct element element = {.type = TYPE_GROUP};
    struct thrift_field field = {0};
    while (thrift_next(thrift, &field)) {
        int64_t value = 0;
        if (field.number == 1 || field.number == 3 || field.number == 5 || field.number == 6)
            value = thrift_integer(thrift, &field);
        else if (field.number == 4)
            element.text = thrift_bytes(thrift, &field, &element.length);
        else if (field.number == 10)
            read_logical(thrift, &field, &element);
        else
            thrift_skip(thrift, &field);
        if (field.number == 1)
            element.type = value;
        element.repeated |= field.number == 3 && value == REPETITION_REPEATED;
        element.optional |= field.number == 3 && value == REPETITION_OPTIONAL;
        if (field.number == 5)
            element.children = value;
        element.list |= field.number == 6 && value == CONVERTED_LIST;
        element.map |= field.number == 6 && value == CONVERTED_MAP;
        element.quantity |= field.number == 6 && value >= CONVERTED_DECIMAL && value <= CONVERTED_TIMESTAMP_MICROS;
        element.no_sign |= field.number == 6 && value >= CONVERTED_UINT_8 && value <= CONVERTED_UINT_64;
    }
    return element;
}

static int read_schema(struct parquet_footer *footer, struct thrift *thrift, const struct thrift_field *field)
{
    const int64_t count = thrift_structs(thrift, field);
    if (count > PARQUET_ELEMENTS)
        return error_user("%s: has more than %d columns", source_name(footer->source), PARQUET_ELEMENTS);
    memory_free(footer->elements);
    footer->elements = memory_allocate(count * (int64_t)sizeof *footer->elements);
    footer->element_count = count;
    for (int64_t i = 0; i < count; i++)
        footer->elements[i] = read_element(thrift);
    return ERROR_NONE;
}

static void place_below(struct parquet_footer *footer, struct element *element, const struct element *parent)
{
    element->parent = parent - footer->elements;
    element->depth = parent->depth + 1;
    element->definition = parent->definition + (element->optional || element->repeated);
    element->repetition = parent->repetition + element->repeated;
    element->silent = (element->repeated && (parent->list || parent->map)) ||
                      (parent->silent && parent->children == 1 && footer->elements[parent->parent].list);
}

/* Links elements to their parents. The schema is a tree, written depth first. */
static int link_schema(struct parquet_footer *footer)
{
    struct element *elements = footer->elements;
    int64_t left[PARQUET_DEPTH] = {0},
            above[PARQUET_DEPTH] = {0}; /* remaining children and element of each open group */
    int depth = 0;
    if (footer->element_count == 0)
        return damaged(footer, "it has no schema");
    left[0] = elements[0].children;
    for (int64_t i = 1; i < footer->element_count; i++) {
        while (depth > 0 && left[depth] == 0)
            depth--;
        if (left[depth] <= 0)
            return damaged(footer, "its schema is not a tree");
        left[depth]--;
        place_below(footer, &elements[i], &elements[above[depth]]);
        if (elements[i].type != TYPE_GROUP) {
            elements[i].place = footer->columns++;
        } else if (++depth < PARQUET_DEPTH) {
            above[depth] = i;
            left[depth] = elements[i].children;
        } else {
            return error_user("%s: its columns lie in groups of more than %d levels", source_name(footer->source),
                              PARQUET_DEPTH - 1);
        }
    }
    for (; depth >= 0; depth--)
        if (left[depth] != 0)
            return damaged(footer, "its schema is not a tree");
    return ERROR_NONE;
}

/* -- Reading ----------------------------------------------------------------------------------------------------- */

static int parse(struct parquet_footer *footer, int64_t bytes)
{
    struct thrift thrift = {footer->bytes, footer->bytes + bytes, false};
    struct thrift_field field = {0}, group = {0, THRIFT_STRUCT};
    int code = ERROR_NONE;
    while (code == ERROR_NONE && thrift_next(&thrift, &field)) {
        if (field.number == 2) {
            code = read_schema(footer, &thrift, &field);
        } else if (field.number == 4) {
            footer->groups_left = thrift_structs(&thrift, &field);
            footer->groups = thrift;
            for (int64_t i = 0; i < footer->groups_left && !thrift.bad; i++)
                thrift_skip(&thrift, &group);
        } else {
            thrift_skip(&thrift, &field);
        }
    }
    if (code == ERROR_NONE && thrift.bad)
        code = damaged(footer, "it cannot be read to its end");
    return code == ERROR_NONE ? link_schema(footer) : code;
}

/* Finds offset and length of the footer from the file's last bytes. */
static int find_footer(struct parquet_footer *footer, int64_t *bytes)
{
    const char *name = source_name(footer->source);
    uint8_t head[MAGIC_BYTES], tail[TAIL_BYTES];
    int64_t size;
    int code = source_size(footer->source, &size);
    if (code == ERROR_NONE && size < MAGIC_BYTES + TAIL_BYTES)
        return error_user("%s: is not a Parquet file: it has %lld bytes", name, (long long)size);
    if (code == ERROR_NONE)
        code = source_read_at(footer->source, head, MAGIC_BYTES, 0);
    if (code == ERROR_NONE)
        code = source_read_at(footer->source, tail, TAIL_BYTES, size - TAIL_BYTES);
    if (code != ERROR_NONE)
        return code;
    if (memcmp(head, "PARE", 4) == 0 && memcmp(tail + 4, "PARE", 4) == 0)
        return error_user("%s: is an encrypted Parquet file; write it without encryption", name);
    if (memcmp(head, "PAR1", 4) != 0)
        return error_user("%s: is not a Parquet file: it does not begin with PAR1", name);
    if (memcmp(tail + 4, "PAR1", 4) != 0)
        return error_user("%s: does not end with PAR1, as a Parquet file does: it is truncated or damaged", name);
    *bytes = (int64_t)tail[0] | (int64_t)tail[1] << 8 | (int64_t)tail[2] << 16 | (int64_t)tail[3] << 24;
    footer->limit = size - TAIL_BYTES - *bytes;
    if (*bytes == 0 || footer->limit < MAGIC_BYTES)
        return damaged(footer, "it would be empty, or longer than the file");
    if (*bytes > PARQUET_FOOTER_BYTES)
        return error_user("%s: its Parquet footer has %lld bytes, more than %d", name, (long long)*bytes,
                          PARQUET_FOOTER_BYTES);
    return ERROR_NONE;
}

int parquet_footer_read(struct parquet_footer **out, struct record_source *source)
{
    struct parquet_footer *footer = memory_allocate(sizeof *footer);
    int64_t bytes = 0;
    footer->source = source;
    *out = footer;
    int code = find_footer(footer, &bytes);
    if (code != ERROR_NONE)
        return code;
    footer->bytes = memory_allocate(bytes);
    code = source_read_at(source, footer->bytes, bytes, footer->limit);
    return code == ERROR_NONE ? parse(footer, bytes) : code;
}

void parquet_footer_destroy(struct parquet_footer *footer)
{
    if (footer == NULL)
        return;
    memory_free(footer->bytes);
    memory_free(footer->elements);
    memory_free(footer);
}

/* -- Columns ----------------------------------------------------------------------------------------------------- */

/* Writes the element's name, its parts joined by dots; returns false if it is too long. */
static bool write_name(const struct parquet_footer *footer, const struct element *element, bool with_silent, char *name)
{
    const struct element *path[PARQUET_DEPTH];
    int depth = element->depth;
    int64_t used = 0;
    for (int d = depth - 1; d >= 0; d--) {
        path[d] = element;
        element = &footer->elements[element->parent];
    }
    for (int d = 0; d < depth; d++) {
        if (path[d]->silent && !with_silent)
            continue;
        if (used + path[d]->length + 2 > NAME_BYTES)
            return false;
        if (used > 0)
            name[used++] = '.';
        memcpy(name + used, path[d]->text != NULL ? path[d]->text : "", (size_t)path[d]->length);
        used += path[d]->length;
    }
    name[used] = '\0';
    return true;
}

static int refuse_twice(const struct parquet_footer *footer, const char *name)
{
    return error_user("%s: has two columns \"%s\"", source_name(footer->source), name);
}

/* Finds a column by name; *found is NULL if there is none. */
static int find_element(const struct parquet_footer *footer, const char *wanted, const struct element **found)
{
    char name[NAME_BYTES];
    *found = NULL;
    for (int64_t i = 1; i < footer->element_count; i++) {
        const struct element *element = &footer->elements[i];
        bool same = false;
        for (int with_silent = 0; with_silent < 2 && element->type != TYPE_GROUP; with_silent++)
            same |= write_name(footer, element, with_silent == 1, name) && strcmp(name, wanted) == 0;
        if (same && *found != NULL)
            return refuse_twice(footer, wanted);
        if (same)
            *found = element;
    }
    return ERROR_NONE;
}

static const char *type_name(const struct element *element)
{
    static const char *const types[TYPES] = {"BOOLEAN", "INT32",  "INT64",      "INT96",
                                             "FLOAT",   "DOUBLE", "BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY"};
    if (element->type == TYPE_GROUP)
        return "a group";
    return element->type >= 0 && element->type < TYPES ? types[element->type] : "an unknown type";
}

static struct parquet_column describe(const struct parquet_footer *footer, const struct element *element,
                                      const char *name)
{
    const struct element *list = element;
    while (list->depth > 0 && !list->repeated)
        list = &footer->elements[list->parent];
    return (struct parquet_column){.name = memory_string(name),
                                   .place = element->place,
                                   .type = element->type,
                                   .definition = element->definition,
                                   .repetition = element->repetition,
                                   .empty = list->definition - 1,
                                   .width = element->type == TYPE_INT32 || element->type == TYPE_FLOAT    ? 4
                                            : element->type == TYPE_INT64 || element->type == TYPE_DOUBLE ? 8
                                                                                                          : 0,
                                   .no_sign = element->no_sign,
                                   .real = element->type == TYPE_FLOAT || element->type == TYPE_DOUBLE};
}

static int refuse_absent(const struct parquet_footer *footer, const char *wanted)
{
    char name[NAME_BYTES], *list = memory_string("");
    int listed = 0;
    for (int64_t i = 1; i < footer->element_count && listed < NAMES_LISTED; i++) {
        const struct element *element = &footer->elements[i];
        if (element->type != TYPE_BYTES || !write_name(footer, element, false, name))
            continue;
        char *longer = memory_format("%s%s%s", list, listed > 0 ? ", " : "", name);
        free(list);
        list = longer;
        listed++;
    }
    int code = error_user("%s: has no column \"%s\"; name the column of the sequence with --field%s%s%s",
                          source_name(footer->source), wanted, listed > 0 ? ". Of strings it has: " : "", list,
                          listed == NAMES_LISTED ? ", ..." : "");
    free(list);
    return code;
}

int parquet_footer_find(const struct parquet_footer *footer, const char *name, struct parquet_column *column)
{
    const struct element *element;
    int code = find_element(footer, name, &element);
    if (code != ERROR_NONE)
        return code;
    if (element == NULL)
        return refuse_absent(footer, name);
    if (element->type != TYPE_BYTES)
        return error_user("%s: column \"%s\" contains %s, not strings", source_name(footer->source), name,
                          type_name(element));
    if (element->repetition > 1)
        return error_user("%s: column \"%s\" contains lists of lists; only strings and lists of strings can be read",
                          source_name(footer->source), name);
    *column = describe(footer, element, name);
    return ERROR_NONE;
}

int parquet_footer_names(const struct parquet_footer *footer, const char *name, struct parquet_column *column,
                         bool *found)
{
    const struct element *named = NULL;
    *found = false;
    for (int64_t i = 1; i < footer->element_count; i++) {
        const struct element *element = &footer->elements[i];
        if (element->depth != 1 || element->length != (int64_t)strlen(name) ||
            memcmp(element->text, name, (size_t)element->length) != 0)
            continue;
        if (named != NULL)
            return refuse_twice(footer, name);
        named = element;
    }
    if (named == NULL)
        return ERROR_NONE;
    const bool integer = (named->type == TYPE_INT32 || named->type == TYPE_INT64) && !named->quantity;
    if (named->repeated || (named->type != TYPE_BYTES && !integer))
        return error_user("%s: column \"%s\" names the records: it must contain strings or integers, but contains %s",
                          source_name(footer->source), name,
                          named->repeated   ? "lists"
                          : named->quantity ? "decimal numbers, dates or times"
                                            : type_name(named));
    *column = describe(footer, named, name);
    *found = true;
    return ERROR_NONE;
}

int parquet_footer_label(const struct parquet_footer *footer, const char *name, struct parquet_column *column)
{
    const struct element *element;
    int code = find_element(footer, name, &element);
    if (code != ERROR_NONE)
        return code;
    if (element == NULL)
        return error_user("%s: has no column \"%s\" (--labels or --split-column)", source_name(footer->source), name);
    const bool number = element->type == TYPE_INT32 || element->type == TYPE_INT64 || element->type == TYPE_FLOAT ||
                        element->type == TYPE_DOUBLE;
    if (element->repetition > 0 || (element->type != TYPE_BYTES && (!number || element->quantity)))
        return error_user(
            "%s: column \"%s\" (--labels or --split-column) must contain strings, integers or reals, but contains %s",
            source_name(footer->source), name,
            element->repetition > 0 ? "lists"
            : element->quantity     ? "decimal numbers, dates or times"
                                    : type_name(element));
    *column = describe(footer, element, name);
    return ERROR_NONE;
}

/* -- Row groups -------------------------------------------------------------------------------------------------- */

/* A row group's entry for one column. */
struct column_chunk {
    struct parquet_chunk chunk;
    int64_t type, data, dictionary;
    bool elsewhere, encrypted;
};

static void read_chunk_data(struct thrift *thrift, const struct thrift_field *outer, struct column_chunk *column)
{
    struct thrift_field field = {0};
    if (!thrift_struct(thrift, outer))
        return;
    while (thrift_next(thrift, &field))
        switch (field.number) {
        case 1:
            column->type = thrift_integer(thrift, &field);
            break;
        case 4:
            column->chunk.codec = (int)thrift_integer(thrift, &field);
            break;
        case 5:
            column->chunk.entries = thrift_integer(thrift, &field);
            break;
        case 7:
            column->chunk.bytes = thrift_integer(thrift, &field);
            break;
        case 9:
            column->data = thrift_integer(thrift, &field);
            break;
        case 11:
            column->dictionary = thrift_integer(thrift, &field);
            break;
        default:
            thrift_skip(thrift, &field);
        }
}

static struct column_chunk read_chunk(struct thrift *thrift)
{
    struct column_chunk column = {.type = TYPE_GROUP};
    struct thrift_field field = {0};
    while (thrift_next(thrift, &field)) {
        column.elsewhere |= field.number == 1;
        column.encrypted |= field.number == 8;
        if (field.number == 3)
            read_chunk_data(thrift, &field, &column);
        else
            thrift_skip(thrift, &field);
    }
    column.chunk.start = column.dictionary > 0 && column.dictionary < column.data ? column.dictionary : column.data;
    return column;
}

static int check_chunk(const struct parquet_footer *footer, const struct column_chunk *column,
                       const struct parquet_column *wanted)
{
    const char *file = source_name(footer->source), *name = wanted->name;
    const long long group = (long long)footer->group;
    if (column->encrypted)
        return error_user("%s: column \"%s\" is encrypted", file, name);
    if (column->elsewhere)
        return error_user("%s: column \"%s\" is in another file; use a file that contains its data", file, name);
    const struct parquet_chunk *chunk = &column->chunk;
    if (column->type != wanted->type || chunk->entries < 0 || chunk->bytes < 0 || chunk->start < MAGIC_BYTES ||
        chunk->start > footer->limit || chunk->bytes > footer->limit - chunk->start)
        return error_user("%s: its Parquet footer is damaged: column \"%s\" of row group %lld would lie at %lld, %lld "
                          "bytes, outside the file's data",
                          file, name, group, (long long)chunk->start, (long long)chunk->bytes);
    return ERROR_NONE;
}

static int read_chunks(struct parquet_footer *footer, const struct thrift_field *field,
                       const struct parquet_column *columns, int count, struct parquet_chunk *chunks)
{
    const int64_t places = thrift_structs(&footer->groups, field);
    int found = 0, code = ERROR_NONE;
    for (int64_t place = 0; place < places && code == ERROR_NONE; place++) {
        const struct column_chunk column = read_chunk(&footer->groups);
        for (int i = 0; i < count && code == ERROR_NONE; i++)
            if (columns[i].place == place) {
                chunks[i] = column.chunk.entries == 0 ? (struct parquet_chunk){0} : column.chunk;
                if (column.chunk.entries != 0)
                    code = check_chunk(footer, &column, &columns[i]);
                found++;
            }
    }
    if (code == ERROR_NONE && found < count)
        code = damaged(footer, "a row group lacks a column");
    return code;
}

int parquet_footer_next(struct parquet_footer *footer, const struct parquet_column *columns, int count,
                        struct parquet_chunk *chunks, int64_t *rows, bool *more)
{
    struct thrift_field field = {0};
    bool read = false;
    int code = ERROR_NONE;
    *rows = 0;
    *more = footer->groups_left > 0;
    if (!*more)
        return ERROR_NONE;
    footer->groups_left--;
    footer->group++;
    while (code == ERROR_NONE && thrift_next(&footer->groups, &field)) {
        if (field.number == 1) {
            code = read_chunks(footer, &field, columns, count, chunks);
            read = true;
        } else if (field.number == 3) {
            *rows = thrift_integer(&footer->groups, &field);
        } else {
            thrift_skip(&footer->groups, &field);
        }
    }
    if (code == ERROR_NONE && (footer->groups.bad || !read || *rows < 0))
        code = damaged(footer, "a row group cannot be read");
    return code;
}
