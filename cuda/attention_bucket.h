/* Classes of work by which attention's work list is sorted, longest first. An item's class depends on the number of
 * rows of the other side that it sees, at most 2^31 - 1. Classes are 64 rows wide up to 32,768 rows, and at most 1/32
 * of the number of rows above. For host and device. */
#ifndef CUDA_ATTENTION_BUCKET_H
#define CUDA_ATTENTION_BUCKET_H

#ifdef __CUDACC__
#define ATTENTION_BUCKET_INLINE __host__ __device__ inline
#else
#define ATTENTION_BUCKET_INLINE static inline
#endif

enum {
    BUCKET_ROWS = 64,    /* rows of a unit */
    BUCKET_SINGLE = 512, /* buckets of one unit each */
    BUCKET_SHIFT = 5,    /* log2 of the number of buckets between two powers of two, above BUCKET_SINGLE */
    BUCKETS = BUCKET_SINGLE + (16 << BUCKET_SHIFT)
};

ATTENTION_BUCKET_INLINE int attention_bucket(int rows)
{
    int units = rows / BUCKET_ROWS, power = 0;
    if (units < BUCKET_SINGLE)
        return units;
    while (units >> (power + BUCKET_SHIFT + 1) > 0)
        power++;
    /* units >> power has BUCKET_SHIFT + 1 bits; `power` is 4 in the first bucket of this width */
    return BUCKET_SINGLE + ((power - 4) << BUCKET_SHIFT) + (units >> power) - (1 << BUCKET_SHIFT);
}

/* Returns the fewest units of rows in a bucket. */
ATTENTION_BUCKET_INLINE int attention_bucket_units(int bucket)
{
    int above = bucket - BUCKET_SINGLE;
    if (above < 0)
        return bucket;
    return ((1 << BUCKET_SHIFT) + (above & ((1 << BUCKET_SHIFT) - 1))) << (4 + (above >> BUCKET_SHIFT));
}

#endif
