#include "base/random.h"

#include <math.h>

void random_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4])
{
    uint32_t c[4] = {counter[0], counter[1], counter[2], counter[3]};
    uint32_t k[2] = {key[0], key[1]};
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c[0];
        uint64_t p1 = (uint64_t)0xCD9E8D57u * c[2];
        uint32_t next[4] = {(uint32_t)(p1 >> 32) ^ c[1] ^ k[0], (uint32_t)p1, (uint32_t)(p0 >> 32) ^ c[3] ^ k[1],
                            (uint32_t)p0};
        for (int i = 0; i < 4; i++)
            c[i] = next[i];
        k[0] += 0x9E3779B9u;
        k[1] += 0xBB67AE85u;
    }
    for (int i = 0; i < 4; i++)
        out[i] = c[i];
}

/* 128 bits for (key, index). The seed is Philox's key, so two seeds never share a sequence; purpose and stream
 * are mixed into the upper counter words by one more Philox call, which leaves the 64-bit index intact. */
static void draw(const struct random_key *key, uint64_t index, uint32_t out[4])
{
    uint32_t seed[2] = {(uint32_t)key->seed, (uint32_t)(key->seed >> 32)};
    uint32_t name[4] = {(uint32_t)key->stream, (uint32_t)(key->stream >> 32), key->purpose, 0x63697374u};
    uint32_t mixed[4];
    random_philox(name, seed, mixed);
    uint32_t counter[4] = {(uint32_t)index, (uint32_t)(index >> 32), mixed[0], mixed[1]};
    uint32_t inner[2] = {mixed[2], mixed[3]};
    random_philox(counter, inner, out);
}

uint64_t random_bits(const struct random_key *key, uint64_t index)
{
    uint32_t out[4];
    draw(key, index, out);
    return (uint64_t)out[0] << 32 | out[1];
}

static double to_unit(uint32_t high, uint32_t low)
{
    return (double)(((uint64_t)high << 32 | low) >> 11) * 0x1p-53;
}

double random_uniform(const struct random_key *key, uint64_t index)
{
    uint32_t out[4];
    draw(key, index, out);
    return to_unit(out[0], out[1]);
}

double random_normal(const struct random_key *key, uint64_t index)
{
    uint32_t out[4];
    draw(key, index >> 1, out);
    double radius = sqrt(-2.0 * log(1.0 - to_unit(out[0], out[1]))); /* 1 - u is never 0 */
    double angle = 6.283185307179586476925 * to_unit(out[2], out[3]);
    return radius * ((index & 1) ? sin(angle) : cos(angle));
}

uint64_t random_hash_name(const char *name)
{
    uint64_t hash = 0xcbf29ce484222325u;
    for (; *name; name++)
        hash = (hash ^ (unsigned char)*name) * 0x100000001b3u;
    return hash;
}
