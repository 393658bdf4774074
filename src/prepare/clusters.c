#include "prepare/clusters.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/random.h"
#include "records/line_reader.h"
#include "records/source.h"

#include <stdlib.h>
#include <string.h>

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
    struct line_reader lines;
    char *cluster; /* CD-HIT: name of the current cluster, with its '>'; NULL before the first */
    bool listed;   /* CD-HIT */
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
    return error_user("%s: line %lld: %s", r->path, (long long)r->lines.number, what);
}

/* Ends a name at its first blank. */
static char *first_word(char *text)
{
    text[strcspn(text, " \t")] = '\0';
    return text;
}

static int take_listed(struct reading *r, char *line)
{
    char *name = strstr(line, ", >"), *end = name != NULL ? strstr(name, "...") : NULL;
    if (line[0] == '>') {
        free(r->cluster);
        r->cluster = memory_string(line);
        return ERROR_NONE;
    }
    if (r->cluster == NULL || end == NULL)
        return refuse(r, "is not a line of a CD-HIT .clstr file, such as \"0<TAB>120aa, >NAME... *\"");
    *end = '\0';
    add(r->clusters, first_word(name + strlen(", >")), r->cluster);
    return ERROR_NONE;
}

static int take_pair(struct reading *r, char *line)
{
    char *tab = strchr(line, '\t');
    if (tab == NULL || tab == line || tab[1] == '\0' || strchr(tab + 1, '\t') != NULL)
        return refuse(r, "is not REPRESENTATIVE<TAB>MEMBER, as in MMseqs2's cluster.tsv");
    *tab = '\0';
    add(r->clusters, first_word(tab + 1), first_word(line));
    return ERROR_NONE;
}

/* Blank lines are dropped. */
static int take_line(struct reading *r, char *line)
{
    if (line[0] == '\0')
        return ERROR_NONE;
    if (r->clusters->count == 0 && strncmp(line, ">Cluster", strlen(">Cluster")) == 0)
        r->listed = true;
    return r->listed ? take_listed(r, line) : take_pair(r, line);
}

static int read_all(struct reading *r)
{
    char *line;
    int64_t length;
    int code;
    do {
        code = line_reader_next(&r->lines, &line, &length);
        if (code == ERROR_NONE && line != NULL)
            code = take_line(r, line);
    } while (code == ERROR_NONE && line != NULL);
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
    struct reading r = {.clusters = memory_allocate(sizeof *r.clusters), .path = path};
    line_reader_create(&r.lines, source);
    code = read_all(&r);
    if (code == ERROR_NONE)
        code = check(r.clusters, path);
    if (code == ERROR_NONE)
        *out = r.clusters;
    else
        clusters_destroy(r.clusters);
    free(r.cluster);
    line_reader_destroy(&r.lines);
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
