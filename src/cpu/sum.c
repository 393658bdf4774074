#include "cpu/sum.h"
#include "cpu/convert.h"

CPU_CLONES static void set_sums(const float *sums, bool accumulate, float *restrict to, int64_t count)
{
#pragma omp simd
    for (int64_t i = 0; i < count; i++)
        to[i] = (accumulate ? to[i] : 0.0f) + sums[i];
}

/* Sums columns first .. first + count - 1, at most CPU_SPAN, within blocks of rows and then over the blocks. */
static void sum_columns(const struct tensor *x, int64_t first, int64_t count, float *sums)
{
    enum { BLOCK_ROWS = 64 };
    float buffer[CPU_SPAN];
    memset(sums, 0, (size_t)count * sizeof *sums);
    for (int64_t block = 0; block < x->rows; block += BLOCK_ROWS) {
        float partial[CPU_SPAN] = {0.0f};
        for (int64_t row = block; row < cpu_min(x->rows, block + BLOCK_ROWS); row++)
            cpu_add_span(cpu_read(x, row, first, count, buffer), partial, count);
        cpu_add_span(partial, sums, count);
    }
}

CPU_CLONES static float sum_of(const float *x, int64_t count)
{
    float sum = 0.0f;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < count; i++)
        sum += x[i];
    return sum;
}

static void sum_rows(const struct tensor *x, int64_t first, int64_t count, float *sums)
{
    for (int64_t i = 0; i < count; i++) {
        double sum = 0.0;
        for (int64_t col = 0; col < x->cols; col += CPU_SPAN)
            sum += (double)sum_of(tensor_at(x, first + i, col), cpu_min(CPU_SPAN, x->cols - col));
        sums[i] = (float)sum;
    }
}

/* Threads divide the sums, but never split one, so the order of each sum depends only on the shape. */
void cpu_sum(struct cpu *cpu, const struct tensor *x, bool over_rows, const struct tensor *sum, bool accumulate)
{
    int parts = cpu_threads(cpu, tensor_count(x));
#pragma omp parallel for num_threads(parts) schedule(static)
    for (int i = 0; i < parts; i++) {
        int64_t end = cpu_part(sum->cols, parts, i + 1, CPU_LINE / sizeof(float)), count;
        for (int64_t first = cpu_part(sum->cols, parts, i, CPU_LINE / sizeof(float)); first < end; first += count) {
            float sums[CPU_SPAN];
            count = cpu_min(CPU_SPAN, end - first);
            if (over_rows)
                sum_columns(x, first, count, sums);
            else
                sum_rows(x, first, count, sums);
            set_sums(sums, accumulate, tensor_at(sum, 0, first), count);
        }
    }
}
