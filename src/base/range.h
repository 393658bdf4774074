/* Minimum and maximum of two numbers, and the intersection of two ranges. */
#ifndef BASE_RANGE_H
#define BASE_RANGE_H

#include <stddef.h>
#include <stdint.h>

/* MIN and MAX evaluate each argument once. Their type is that of the sum of both arguments: int, int64_t, size_t, float
 * or double. If one of two floats or doubles is NaN, the result is the second argument. */
#define MIN(a, b) RANGE_PICK(min, (a) + (b))((a), (b))
#define MAX(a, b) RANGE_PICK(max, (a) + (b))((a), (b))

/* clang-format off */
#define RANGE_PICK(which, sum)                                                                                         \
    _Generic((sum),                                                                                                    \
        int: range_##which##_int, int64_t: range_##which##_int64, size_t: range_##which##_size,                        \
        float: range_##which##_float, double: range_##which##_double)
/* clang-format on */

#define RANGE_FUNCTIONS(name, type)                                                                                    \
    static inline type range_min_##name(type a, type b)                                                                \
    {                                                                                                                  \
        return a < b ? a : b;                                                                                          \
    }                                                                                                                  \
    static inline type range_max_##name(type a, type b)                                                                \
    {                                                                                                                  \
        return a > b ? a : b;                                                                                          \
    }
RANGE_FUNCTIONS(int, int)
RANGE_FUNCTIONS(int64, int64_t)
RANGE_FUNCTIONS(size, size_t)
RANGE_FUNCTIONS(float, float)
RANGE_FUNCTIONS(double, double)
#undef RANGE_FUNCTIONS

/* The indices first .. first + count - 1. */
struct index_range {
    int64_t first, count;
};

/* Returns the intersection of two ranges; count 0: empty. */
static inline struct index_range range_common(struct index_range a, struct index_range b)
{
    const int64_t first = MAX(a.first, b.first), end = MIN(a.first + a.count, b.first + b.count);
    return (struct index_range){first, MAX(end - first, 0)};
}

#endif
