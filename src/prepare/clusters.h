/* Clusters of similar records, which a split keeps together (prepare/split.h), from a file:
 *
 *    MMseqs2   lines `representative TAB member` (createtsv, easy-cluster's _cluster.tsv)
 *    CD-HIT    .clstr: `>Cluster N`, then lines such as `0	120aa, >NAME... *`
 *
 * plain or compressed. Names are the first words of headers. Records that the file does not name are clusters of their
 * own. Names are compared by 64-bit hashes: equal hashes of different names join two clusters. Memory: 16 bytes per
 * member. */
#ifndef PREPARE_CLUSTERS_H
#define PREPARE_CLUSTERS_H

#include <stdbool.h>
#include <stdint.h>

struct clusters;

/* Reads a file. *clusters is NULL after an error. ERROR_USER: errors of source_open and line_reader.h; a line that has
 * neither form, a name in two clusters, or no member. */
int clusters_read(struct clusters **clusters, const char *path);

/* Returns the cluster of a record: a hash of its representative's name, or if the file does not name the record, of the
 * record's own. *named, if not NULL: whether the file names it. */
uint64_t clusters_find(const struct clusters *clusters, const char *name, bool *named);
/* Accepts NULL. */
void clusters_destroy(struct clusters *clusters);

#endif
