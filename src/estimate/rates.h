/* How fast a machine is: rates of its products, attention, memory and collectives, by which `cistron plan` and
 * parallel.shard = "auto" tell what a step takes. `cistron measure` writes them to a file (estimate/rates_file.h) that
 * the key device.rates_file names. What a file does not say, or all without one, is as an H200 has it
 * (bench/results/gpu_layouts.txt): 0.6 of a peak of 989 TFLOP/s, or of device.peak, in products and half of it in
 * attention, twice that of 8-bit products; 4 TB/s of memory read and written; 300 GB/s that a rank receives from others
 * on its node by NVLink, 50 from other nodes (400 Gbit/s for each GPU), 50 to and from the host (PCIe 5). */
#ifndef ESTIMATE_RATES_H
#define ESTIMATE_RATES_H

#include "core/op.h"

enum rate_kind {
    RATE_PRODUCT,            /* FLOP/s, by m, n, k and type */
    RATE_ATTENTION_FORWARD,  /* FLOP/s, by head_dim, tokens of a segment and type */
    RATE_ATTENTION_BACKWARD, /* the same; its five products count */
    RATE_MEMORY,             /* bytes read and written a second, by bytes */
    RATE_HOST,               /* bytes copied to the host a second, by bytes */
    /* bytes that a rank receives a second, by the group's ranks and by bytes */
    RATE_ALL_REDUCE,
    RATE_REDUCE_SCATTER,
    RATE_ALL_GATHER,
    RATE_ALL_TO_ALL,
    RATE_SHIFT,
    RATE_KINDS
};

/* Of products: what their operands are. A weight's gradient is a sum in f32 that adds to what is there. */
enum rate_product { RATE_F32, RATE_BF16, RATE_FP8, RATE_F32_GRADIENT, RATE_BF16_GRADIENT, RATE_FP8_GRADIENT };
/* Of attention. */
enum rate_mask { RATE_FULL, RATE_CAUSAL };

enum { RATES_MOST = 1024, RATE_SIZES = 3, RATES_DEVICE = 64 };

/* One that was measured. */
struct machine_rate {
    enum rate_kind kind;
    int type; /* enum rate_product, enum rate_mask; 0 for the rest */
    double size[RATE_SIZES];
    double per_second;
    double log_size[RATE_SIZES], log_rate; /* to base 2: set by rates_add */
};

/* Plain data: it may be sent as bytes between ranks of one build. */
struct machine_rates {
    char device[RATES_DEVICE]; /* that was measured; "": none was */
    int64_t node;              /* ranks of a node, that follow one another: the caller's to set */
    double peak;               /* FLOP/s of what was not measured */
    double between_nodes;      /* bytes a second that a rank receives from other nodes */
    int count;
    struct machine_rate measured[RATES_MOST];
};

/* Rates without a file, on nodes of 8; peak: FLOP/s of a device, 0 where unknown. */
void rates_default(struct machine_rates *rates, double peak);

/* Adds one by its first four fields. False: there are RATES_MOST. */
bool rates_add(struct machine_rates *rates, const struct machine_rate *rate);

/* Do the rates say how long a step of `ranks` ranks takes? On GPUs always. On CPUs only where they were measured, for
 * several ranks also those of collectives, since an H200's rates say nothing of a CPU. */
bool rates_tell(const struct machine_rates *rates, bool gpus, int64_t ranks);

/* The number of sizes of a kind: the fields of struct machine_rate's `size` that count. */
int rate_sizes(enum rate_kind kind);

/* The rate at a size: the mean, in logarithms, of those measured of its kind and type, which count by 1 / distance^4
 * in logarithms of sizes, so that one measured there counts alone (Shepard 1968). Where there are none of the type, as
 * the head of this file says. */
double rates_at(const struct machine_rates *rates, enum rate_kind kind, int type, const double size[RATE_SIZES]);

/* Seconds that bytes take: at least as long as the fewest that were measured, for less does not take less. */
double rates_seconds(const struct machine_rates *rates, enum rate_kind kind, int64_t ranks, double bytes);

/* The type of a product. */
int rate_product_of(const struct gemm_args *args);

/* Seconds of an op that is no collective. flops: that it does, where it is a product or attention; tokens: of the
 * segments that it sees. */
double rates_op_seconds(const struct machine_rates *rates, enum op op, const void *args, double flops, int64_t tokens);

/* Seconds of a collective of so many ranks, `near` of which are on each node: where that is not all, a rank receives by
 * the network cards of these. bytes: that it receives. */
double rates_transfer_seconds(const struct machine_rates *rates, enum op op, int64_t ranks, int64_t near, double bytes);

#endif
