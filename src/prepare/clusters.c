#include "prepare/clusters.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/random.h"
#include "records/source.h"

#include <stdlib.h>
#include <string.h>

enum { BUFFER_BYTES = 1 << 20, LINE_BYTES = 1 << 16 };

struct cluster_member {
    uint64_t name, representative; /* hashes */
};

struct clusters {
    struct cluster_member *members; /* [count], sorted by name */
    int64_t count, capacity;
};

/* A file that is being read. */
struct reading {
    struct clusters *clusters;
    const char *path;
    int64_t line;
    char text[LINE_BYTES]; /* the current line */
    int64_t length;
    char cluster[LINE_BYTES]; /* CD-HIT: name of the current cluster, with its '>'; "" before the first */
    bool listed;              /* CD-HIT */
};

static void add(struct clusters *clusters, const char *name, const char *representative)
{
    if (clusters->count == clusters->capacity) {
        clusters->capacity = 2 * clusters->capacity + 1024;
        clusters->members = memory_grow(clusters->members, clusters->capacity * (int64_t)sizeof *clusters->members);
    }
    clusters->members[clusters->count++] =
        (struct cluster_member){random_hash_name(name), random_hash_name(representative)};
}

static int refuse(const struct reading *r, const char *what)
{
    return error_user("%s: line %lld: %s", r->path, (long long)r->line, what);
}

/* Ends a name at its first blank. */
static char *first_word(char *text)
{
    text[strcspn(text, " \t")] = '\0';
    return text;
}

static int take_listed(struct reading *r)
{
    char *name = strstr(r->text, ", >"), *end = name != NULL ? strstr(name, "...") : NULL;
    if (r->text[0] == '>') {
        strcpy(r->cluster, r->text);
        return ERROR_NONE;
    }
    if (r->cluster[0] == '\0' || end == NULL)
        return refuse(r, "is not a line of a CD-HIT .clstr file, such as \"0<TAB>120aa, >NAME... *\"");
    *end = '\0';
    add(r->clusters, first_word(name + strlen(", >")), r->cluster);
    return ERROR_NONE;
}

static int take_pair(struct reading *r)
{
    char *tab = strchr(r->text, '\t');
    if (tab == NULL || tab == r->text || tab[1] == '\0' || strchr(tab + 1, '\t') != NULL)
        return refuse(r, "is not REPRESENTATIVE<TAB>MEMBER, as in MMseqs2's cluster.tsv");
    *tab = '\0';
    add(r->clusters, first_word(tab + 1), first_word(r->text));
    return ERROR_NONE;
}

/* Takes the line that has ended. Blank lines are dropped. */
static int take_line(struct reading *r)
{
    r->line++;
    if (r->length > 0 && r->text[r->length - 1] == '\r')
        r->length--;
    r->text[r->length] = '\0';
    const bool blank = r->length == 0;
    r->length = 0;
    if (blank)
        return ERROR_NONE;
    if (r->clusters->count == 0 && strncmp(r->text, ">Cluster", strlen(">Cluster")) == 0)
        r->listed = true;
    return r->listed ? take_listed(r) : take_pair(r);
}

static int take_bytes(struct reading *r, const char *bytes, int64_t count)
{
    int code = ERROR_NONE;
    for (int64_t i = 0; i < count && code == ERROR_NONE; i++) {
        if (bytes[i] == '\n')
            code = take_line(r);
        else if (r->length == LINE_BYTES - 1)
            code = refuse(r, "is too long");
        else
            r->text[r->length++] = bytes[i];
    }
    return code;
}

static int read_all(struct reading *r, struct record_source *source)
{
    char *buffer = memory_allocate(BUFFER_BYTES);
    int64_t got = 1;
    int code = ERROR_NONE;
    while (code == ERROR_NONE && got > 0) {
        code = source_read(source, buffer, BUFFER_BYTES, &got);
        if (code == ERROR_NONE)
            code = take_bytes(r, buffer, got);
    }
    if (code == ERROR_NONE && r->length > 0)
        code = take_line(r);
    memory_free(buffer);
    return code;
}

static int compare(const void *left, const void *right)
{
    const struct cluster_member *a = left, *b = right;
    return (a->name > b->name) - (a->name < b->name);
}

static int check(struct clusters *clusters, const char *path)
{
    if (clusters->count == 0)
        return error_user("%s: names no member of a cluster", path);
    qsort(clusters->members, (size_t)clusters->count, sizeof *clusters->members, compare);
    for (int64_t i = 1; i < clusters->count; i++)
        if (clusters->members[i].name == clusters->members[i - 1].name &&
            clusters->members[i].representative != clusters->members[i - 1].representative)
            return error_user("%s: a record is in two clusters", path);
    return ERROR_NONE;
}

int clusters_read(struct clusters **out, const char *path)
{
    struct record_source *source;
    *out = NULL;
    int code = source_open(&source, path);
    if (code != ERROR_NONE)
        return code;
    struct reading *r = memory_allocate(sizeof *r);
    r->clusters = memory_allocate(sizeof *r->clusters);
    r->path = path;
    code = read_all(r, source);
    if (code == ERROR_NONE)
        code = check(r->clusters, path);
    if (code == ERROR_NONE)
        *out = r->clusters;
    else
        clusters_destroy(r->clusters);
    memory_free(r);
    source_close(source);
    return code;
}

uint64_t clusters_find(const struct clusters *clusters, const char *name, bool *named)
{
    const struct cluster_member wanted = {random_hash_name(name), 0};
    const struct cluster_member *found =
        bsearch(&wanted, clusters->members, (size_t)clusters->count, sizeof *clusters->members, compare);
    if (named != NULL)
        *named = found != NULL;
    return found != NULL ? found->representative : wanted.name;
}

void clusters_destroy(struct clusters *clusters)
{
    if (clusters == NULL)
        return;
    free(clusters->members);
    memory_free(clusters);
}
