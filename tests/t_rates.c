/* A machine profile is right: time on concurrent streams, rates between measured sizes, files that are damaged or of
 * another machine, and the measurements of `cistron measure` on a CPU. Injected faults are noticed. */
#include "check.h"

#include "base/error.h"
#include "cpu/cpu.h"
#include "plan/timeline.h"
#include "stores.h"
#include "estimate/device_name.h"
#include "estimate/measure.h"
#include "estimate/rates_file.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* -- The timeline ------------------------------------------------------------------------------------------------- */

/* A fill takes as many seconds as it fills with; a copy takes 5, and `delay` from what computes. */
struct copy_time {
    double alone, delay;
};

static struct launch_time cost(const void *self, int stream, enum op op, const void *args)
{
    const struct copy_time *copies = self;
    CHECK(stream == STREAM_COMPUTE || stream == STREAM_REDUCE);
    return op == OP_FILL ? (struct launch_time){((const struct fill_args *)args)->value, 0}
                         : (struct launch_time){copies->alone, copies->delay};
}

static void add(struct plan_log *log, int stream, double seconds)
{
    const struct stream on = {.id = stream};
    const struct fill_args fill = {.value = seconds};
    const struct copy_args copy = {0};
    if (seconds > 0)
        plan_log_launch(log, &on, OP_FILL, &fill);
    else
        plan_log_launch(log, &on, OP_COPY, &copy);
}

/* Compute 2, 3 and 4 s, where the last waits for a transfer that waits for the first: beside the second, if it is
 * short. */
static void test_timeline(void)
{
    struct plan_log log = {0};
    struct event first = {0}, moved = {0};
    const struct stream compute = {.id = STREAM_COMPUTE}, reduce = {.id = STREAM_REDUCE};
    struct copy_time copies = {0};
    add(&log, STREAM_COMPUTE, 2);
    plan_log_record(&log, &compute, &first);
    plan_log_wait(&log, &reduce, &first);
    add(&log, STREAM_REDUCE, 0);
    plan_log_record(&log, &reduce, &moved);
    add(&log, STREAM_COMPUTE, 3);
    plan_log_wait(&log, &compute, &moved);
    add(&log, STREAM_COMPUTE, 4);
    CHECK(timeline_seconds(&log, cost, &copies) == 9);
    copies = (struct copy_time){1, 1}; /* hidden, and the second takes longer */
    CHECK(timeline_seconds(&log, cost, &copies) == 2 + 1 + 3 + 4);
    copies = (struct copy_time){5, 1};
    CHECK(timeline_seconds(&log, cost, &copies) == 2 + 5 + 4);
    add(&log, STREAM_REDUCE, 7); /* nobody waits for it, and it is part of the step */
    CHECK(timeline_seconds(&log, cost, &copies) == 2 + 5 + 7);
    add(&log, STREAM_REDUCE, 0); /* nothing computes behind it */
    CHECK(timeline_seconds(&log, cost, &copies) == 2 + 5 + 7 + 5);
    plan_log_clear(&log);
}

/* -- Between rates ------------------------------------------------------------------------------------------------ */

static struct machine_rate product(int type, double m, double n, double k, double rate)
{
    return (struct machine_rate){.kind = RATE_GEMM, .type = type, .size = {m, n, k}, .per_second = rate};
}

static void put(struct machine_rates *rates, struct machine_rate rate)
{
    CHECK(rates_add(rates, &rate));
}

static void test_between(void)
{
    struct machine_rates rates;
    rates_default(&rates, 100e12);
    const double size[RATE_SIZES] = {64, 64, 64}, twice[RATE_SIZES] = {128, 64, 64};
    CHECK_NEAR(rates_at(&rates, RATE_GEMM, RATE_BF16, size), 60e12, 1e-12, 0);
    CHECK_NEAR(rates_at(&rates, RATE_GEMM, RATE_FP8, size), 120e12, 1e-12, 0);
    CHECK_NEAR(rates_at(&rates, RATE_ATTENTION_FORWARD, RATE_CAUSAL, size), 30e12, 1e-12, 0);
    CHECK_NEAR(rates_seconds(&rates, RATE_ALL_GATHER, 2, 300e9), 1, 1e-12, 0);
    put(&rates, product(RATE_BF16, 64, 64, 64, 10e12));
    put(&rates, product(RATE_BF16, 256, 64, 64, 40e12));
    CHECK(rates_at(&rates, RATE_GEMM, RATE_BF16, size) == 10e12);
    CHECK_NEAR(rates_at(&rates, RATE_GEMM, RATE_BF16, twice), 20e12, 1e-12, 0); /* half-way, in logarithms */
    CHECK_NEAR(rates_at(&rates, RATE_GEMM, RATE_FP8, size), 120e12, 1e-12, 0);  /* not measured */

    put(&rates, (struct machine_rate){.kind = RATE_MEMORY, .size = {1e6}, .per_second = 1e9});
    put(&rates, (struct machine_rate){.kind = RATE_MEMORY, .size = {1e9}, .per_second = 1e12});
    CHECK_NEAR(rates_seconds(&rates, RATE_MEMORY, 1, 1e9), 1e-3, 1e-12, 0);
    CHECK_NEAR(rates_seconds(&rates, RATE_MEMORY, 1, 10), 1e-3, 1e-12, 0); /* less does not take less */
    CHECK(rates_seconds(&rates, RATE_MEMORY, 1, 0) == 0);

    /* of 8 ranks, 2 on each of 4 nodes: by two network cards */
    CHECK_NEAR(rates_transfer_seconds(&rates, OP_ALL_GATHER, 8, 2, 100e9), 1, 1e-12, 0);
    CHECK_NEAR(rates_transfer_seconds(&rates, OP_ALL_GATHER, 8, 8, 300e9), 1, 1e-12, 0);
}

/* An op by its arguments: a product by its shape, all else by its bytes. */
static void test_ops(void)
{
    struct machine_rates rates;
    rates_default(&rates, 0);
    put(&rates, product(RATE_F32, 32, 48, 16, 1e9));
    put(&rates, product(RATE_F32_GRADIENT, 32, 48, 16, 2e9));
    put(&rates, (struct machine_rate){.kind = RATE_MEMORY, .size = {1}, .per_second = 1e9});
    struct gemm_args gemm = {.a = tensor_matrix(NULL, DTYPE_F32, 32, 16),
                             .b = tensor_matrix(NULL, DTYPE_F32, 16, 48),
                             .d = tensor_matrix(NULL, DTYPE_F32, 32, 48)};
    const double flops = 2 * 32 * 48 * 16;
    CHECK_NEAR(rates_op_seconds(&rates, OP_GEMM, &gemm, flops, 0), flops / 1e9, 1e-12, 0);
    gemm.accumulate = true;
    CHECK_NEAR(rates_op_seconds(&rates, OP_GEMM, &gemm, flops, 0), flops / 2e9, 1e-12, 0);
    gemm.a.dtype = DTYPE_BF16;
    CHECK(rate_gemm_of(&gemm) == RATE_BF16_GRADIENT);
    gemm.d.dtype = DTYPE_BF16;
    gemm.a.dtype = DTYPE_E5M2;
    CHECK(rate_gemm_of(&gemm) == RATE_FP8);
    float numbers[1000];
    const struct tensor all = tensor_vector(numbers, DTYPE_F32, 1000);
    const struct copy_args copy = {.from = all, .to = all};
    CHECK_NEAR(rates_op_seconds(&rates, OP_COPY, &copy, 0, 0), 8e-6, 1e-12, 0);
}

/* -- Files -------------------------------------------------------------------------------------------------------- */

static void refused(const char *text, const char *why)
{
    struct machine_rates rates;
    const char *path = stores_path("bad.cfg");
    FILE *file = fopen(path, "w");
    fputs(text, file);
    fclose(file);
    CHECK(rates_choose(&rates, path, 0) == ERROR_USER);
    if (!CHECK(strstr(error_message(), path) != NULL && strstr(error_message(), why) != NULL))
        fprintf(stderr, "    %s\n", error_message());
    error_clear();
}

static void test_files(const struct machine_rates *measured)
{
    struct machine_rates back;
    const char *path = stores_path("rates.cfg");
    CHECK(rates_choose(&back, path, 0) == ERROR_USER); /* not there */
    error_clear();
    FILE *file = fopen(path, "w");
    if (!CHECK(file != NULL))
        return;
    rates_file_write(measured, file);
    CHECK(fclose(file) == 0);
    if (!CHECK(rates_choose(&back, path, 0) == ERROR_NONE))
        fprintf(stderr, "    %s\n", error_message());
    CHECK_STRING(back.device, measured->device);
    CHECK(back.count == measured->count);
    for (int i = 0; i < measured->count; i++) {
        const struct machine_rate *one = &measured->measured[i];
        const struct machine_rate *other = back.measured;
        while (other < back.measured + back.count && (other->kind != one->kind || other->type != one->type ||
                                                      memcmp(other->size, one->size, sizeof one->size) != 0))
            other++;
        CHECK(other < back.measured + back.count);
        CHECK_NEAR(other->per_second, one->per_second, 1e-5, 0);
    }
    refused("model = { layers = 3; };\n", "not a machine profile");
    refused("\211HDF\r\n", "not a machine profile");
    refused("cistron_rates = 1;\nmemory = ( { bytes = 1.0; rate = 2", "damaged");
    refused("cistron_rates = 2;\n", "format 2");
    refused("cistron_rates = 1;\n", "no rate");
    refused("cistron_rates = 1;\nmemory = ( { bytes = 1.0; rate = -2.0; } );\n", "memory number 1");
    refused("cistron_rates = 1;\nmemory = ( { rate = 2.0; } );\n", "memory number 1");
    refused("cistron_rates = 1;\nproduct = ( { type = \"f64\"; m = 1.0; n = 1.0; k = 1.0; rate = 2.0; } );\n",
            "product number 1");
    refused("cistron_rates = 1;\nshift = 3;\n", "shift: must be a list");
    refused("cistron_rates = 1;\nbetween_nodes = 0.0;\nmemory = ( { bytes = 1.0; rate = 2.0; } );\n", "between_nodes");
}

/* -- Measured ----------------------------------------------------------------------------------------------------- */

static int count_of(const struct machine_rates *rates, enum rate_kind kind, int type)
{
    int count = 0;
    for (int i = 0; i < rates->count; i++)
        count += rates->measured[i].kind == kind && rates->measured[i].type == type;
    return count;
}

static void test_measure(struct machine_rates *rates)
{
    const struct measure_settings settings = {.largest = 128, .quick = true};
    struct executor *cpu = cpu_executor_create(1);
    struct comm *self = comm_self();
    rates_default(rates, 0);
    measure_rates(rates, self, cpu, &settings);
    char *name = device_name(cpu);
    CHECK_STRING(rates->device, name);
    free(name);
    CHECK(count_of(rates, RATE_GEMM, RATE_F32) == 18 && count_of(rates, RATE_GEMM, RATE_F32_GRADIENT) == 18);
    CHECK(count_of(rates, RATE_ATTENTION_FORWARD, RATE_CAUSAL) == 6);
    CHECK(count_of(rates, RATE_ATTENTION_BACKWARD, RATE_FULL) == 6);
    CHECK(count_of(rates, RATE_MEMORY, 0) >= 2 && count_of(rates, RATE_ALL_REDUCE, 0) == 0);
    for (int i = 0; i < rates->count; i++)
        CHECK(rates->measured[i].per_second > 1e5 && rates->measured[i].per_second < 1e14);
    comm_destroy(self);
    cpu->class->destroy(cpu);
}

int main(void)
{
    static struct machine_rates rates;
    stores_begin();
    test_timeline();
    test_between();
    test_ops();
    test_measure(&rates);
    test_files(&rates);
    stores_end();
    return check_end();
}
