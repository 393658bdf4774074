#include "base/nearest.h"
#include "base/memory.h"
#include "base/range.h"

#include <stdlib.h>
#include <string.h>

int nearest_distance(const char *a, int a_length, const char *b, int b_length)
{
    int *row = memory_grow(NULL, (b_length + 1) * (int64_t)sizeof *row);
    for (int j = 0; j <= b_length; j++)
        row[j] = j;
    for (int i = 1; i <= a_length; i++) {
        int diagonal = row[0];
        row[0] = i;
        for (int j = 1; j <= b_length; j++) {
            int best = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = row[j];
            if (row[j] + 1 < best)
                best = row[j] + 1;
            if (row[j - 1] + 1 < best)
                best = row[j - 1] + 1;
            row[j] = best;
        }
    }
    int distance = row[b_length];
    free(row);
    return distance;
}

void nearest_look(struct nearest_name *nearest, const char *name)
{
    enum { LONGEST = 200, LEAST = 3 /* shorter prefixes are not significant */ };
    const int wrong = (int)strnlen(nearest->wrong, LONGEST), length = (int)strnlen(name, LONGEST);
    const int shorter = MIN(wrong, length);
    const bool starts = shorter >= LEAST && strncmp(name, nearest->wrong, (size_t)shorter) == 0;
    const int distance = starts ? 1 : nearest_distance(nearest->wrong, wrong, name, length);
    if (distance > 1 + wrong / 4 || (nearest->name != NULL && distance >= nearest->distance))
        return;
    nearest->name = name;
    nearest->distance = distance;
}
