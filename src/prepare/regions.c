#include "prepare/regions.h"
#include "base/error.h"
#include "base/memory.h"
#include "records/line_reader.h"
#include "records/source.h"

#include <stdlib.h>
#include <string.h>

enum { COLUMN_RECORD, COLUMN_START, COLUMN_END, COLUMN_NAME, COLUMN_SCORE, COLUMN_STRAND, COLUMNS };

/* Splits a line, which ends with a zero, into columns. Returns their number. */
static int split(char *line, char *columns[COLUMNS])
{
    static const char between[] = "\t ";
    int count = 0;
    for (char *at = line + strspn(line, between); *at != '\0' && count < COLUMNS; at += strspn(at, between)) {
        columns[count++] = at;
        at += strcspn(at, between);
        if (*at != '\0')
            *at++ = '\0';
    }
    return count;
}

static bool read_number(const char *text, int64_t *number)
{
    char *end;
    *number = strtoll(text, &end, 10);
    return end > text && *end == '\0' && *number >= 0;
}

static void add(struct bed_regions *regions, struct bed_region region)
{
    if (regions->count == regions->capacity) {
        regions->capacity = 2 * regions->capacity + 1024;
        regions->list = memory_grow(regions->list, regions->capacity * (int64_t)sizeof *regions->list);
    }
    regions->list[regions->count++] = region;
}

static int take_line(struct bed_regions *regions, const struct line_reader *lines, char *line)
{
    static const char *const other[] = {"#", "track", "browser"};
    char *columns[COLUMNS] = {NULL};
    struct bed_region region = {.line = lines->number};
    for (size_t i = 0; i < sizeof other / sizeof *other; i++)
        if (strncmp(line, other[i], strlen(other[i])) == 0)
            return ERROR_NONE;
    const int count = split(line, columns);
    if (count == 0)
        return ERROR_NONE;
    if (count <= COLUMN_END || !read_number(columns[COLUMN_START], &region.start) ||
        !read_number(columns[COLUMN_END], &region.end) || region.end <= region.start)
        return line_reader_refuse(lines, "must be a record, a start from 0 and a larger end, as in a BED file");
    const char *strand = count > COLUMN_STRAND ? columns[COLUMN_STRAND] : ".";
    if (strlen(strand) != 1 || strchr("+-.", *strand) == NULL)
        return line_reader_refuse(lines, "the sixth column of a BED file is the strand: +, - or .");
    region.reverse = *strand == '-';
    region.record = memory_string(columns[COLUMN_RECORD]);
    region.name = count > COLUMN_NAME && strcmp(columns[COLUMN_NAME], ".") != 0
                      ? memory_string(columns[COLUMN_NAME])
                      : memory_format("%s:%lld-%lld%s", region.record, (long long)region.start, (long long)region.end,
                                      region.reverse ? "(-)" : "");
    add(regions, region);
    return ERROR_NONE;
}

static int compare(const void *left, const void *right)
{
    const struct bed_region *a = left, *b = right;
    const int order = strcmp(a->record, b->record);
    return order != 0 ? order : (a->line > b->line) - (a->line < b->line);
}

int regions_read(struct bed_regions *regions, const char *path)
{
    struct record_source *source;
    struct line_reader lines;
    char *line;
    int64_t length;
    *regions = (struct bed_regions){.path = memory_string(path)};
    int code = source_open(&source, path);
    if (code != ERROR_NONE)
        return code;
    line_reader_create(&lines, source);
    do {
        code = line_reader_next(&lines, &line, &length);
        if (code == ERROR_NONE && line != NULL)
            code = take_line(regions, &lines, line);
    } while (code == ERROR_NONE && line != NULL);
    line_reader_destroy(&lines);
    source_close(source);
    if (code == ERROR_NONE && regions->count == 0)
        code = error_user("%s: has no region", path);
    if (code == ERROR_NONE)
        qsort(regions->list, (size_t)regions->count, sizeof *regions->list, compare);
    return code;
}

void regions_destroy(struct bed_regions *regions)
{
    for (int64_t i = 0; i < regions->count; i++) {
        free(regions->list[i].record);
        free(regions->list[i].name);
    }
    free(regions->list);
    free(regions->path);
    *regions = (struct bed_regions){0};
}

const struct bed_region *regions_of(const struct bed_regions *regions, const char *record, int64_t *count)
{
    int64_t low = 0, high = regions->count;
    while (low < high) { /* the first one of this record */
        const int64_t middle = (low + high) / 2;
        const bool before = strcmp(regions->list[middle].record, record) < 0;
        low = before ? middle + 1 : low;
        high = before ? high : middle;
    }
    for (high = low; high < regions->count && strcmp(regions->list[high].record, record) == 0;)
        high++;
    *count = high - low;
    return regions->list + low;
}
