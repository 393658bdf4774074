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

/* What a key is to Philox. The seed is the key of the first call, so two seeds never share a sequence; purpose and
 * stream are mixed into the upper counter words by it, which leaves the 64-bit index intact. */
struct sequence {
    uint32_t upper[2], key[2];
};

static struct sequence sequence_of(const struct random_key *key)
{
    uint32_t seed[2] = {(uint32_t)key->seed, (uint32_t)(key->seed >> 32)};
    uint32_t name[4] = {(uint32_t)key->stream, (uint32_t)(key->stream >> 32), key->purpose, 0x63697374u};
    uint32_t mixed[4];
    random_philox(name, seed, mixed);
    return (struct sequence){{mixed[0], mixed[1]}, {mixed[2], mixed[3]}};
}

/* -- One by one -------------------------------------------------------------------------------------------------- */

/* 128 bits for (key, index). */
static void draw(const struct random_key *key, uint64_t index, uint32_t out[4])
{
    struct sequence sequence = sequence_of(key);
    uint32_t counter[4] = {(uint32_t)index, (uint32_t)(index >> 32), sequence.upper[0], sequence.upper[1]};
    random_philox(counter, sequence.key, out);
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

static double radius_of(uint32_t high, uint32_t low)
{
    return sqrt(-2.0 * log(1.0 - to_unit(high, low))); /* 1 - u is never 0 */
}

static double angle_of(uint32_t high, uint32_t low)
{
    return 6.283185307179586476925 * to_unit(high, low);
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
    double radius = radius_of(out[0], out[1]), angle = angle_of(out[2], out[3]);
    return radius * ((index & 1) ? sin(angle) : cos(angle));
}

/* -- In runs ----------------------------------------------------------------------------------------------------- */

enum { RUN = 256 }; /* draws at a time: all their words fit the first cache */

/* `draw` for RUN indices from `first` on, round by round, so that the compiler makes vectors of it. */
static void draw_run(const struct sequence *sequence, uint64_t first, uint32_t out[4][RUN])
{
    uint32_t k0 = sequence->key[0], k1 = sequence->key[1];
    for (int i = 0; i < RUN; i++) {
        uint64_t index = first + (uint64_t)i;
        out[0][i] = (uint32_t)index;
        out[1][i] = (uint32_t)(index >> 32);
        out[2][i] = sequence->upper[0];
        out[3][i] = sequence->upper[1];
    }
    for (int round = 0; round < 10; round++) {
        for (int i = 0; i < RUN; i++) {
            uint64_t p0 = (uint64_t)0xD2511F53u * out[0][i];
            uint64_t p1 = (uint64_t)0xCD9E8D57u * out[2][i];
            out[0][i] = (uint32_t)(p1 >> 32) ^ out[1][i] ^ k0;
            out[1][i] = (uint32_t)p1;
            out[2][i] = (uint32_t)(p0 >> 32) ^ out[3][i] ^ k1;
            out[3][i] = (uint32_t)p0;
        }
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
}

void random_uniforms(const struct random_key *key, uint64_t first, int64_t count, double *out)
{
    struct sequence sequence = sequence_of(key);
    uint32_t words[4][RUN];
    for (int64_t done = 0; done < count; done += RUN) {
        int64_t rest = count - done < RUN ? count - done : RUN;
        draw_run(&sequence, first + (uint64_t)done, words);
        for (int64_t i = 0; i < rest; i++)
            out[done + i] = to_unit(words[0][i], words[1][i]);
    }
}

void random_normals(const struct random_key *key, uint64_t first, int64_t count, double *out)
{
    struct sequence sequence = sequence_of(key);
    uint32_t words[4][RUN];
    for (int64_t done = 0; done < count;) {
        draw_run(&sequence, (first + (uint64_t)done) >> 1, words);
        for (int i = 0; i < RUN && done < count; i++) {
            double radius = radius_of(words[0][i], words[1][i]), angle = angle_of(words[2][i], words[3][i]);
            double pair[2] = {radius * cos(angle), radius * sin(angle)};
            for (uint64_t half = (first + (uint64_t)done) & 1; half < 2 && done < count; half++)
                out[done++] = pair[half];
        }
    }
}

uint64_t random_hash_name(const char *name)
{
    uint64_t hash = 0xcbf29ce484222325u;
    for (; *name; name++)
        hash = (hash ^ (unsigned char)*name) * 0x100000001b3u;
    return hash;
}
