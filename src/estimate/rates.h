/* The machine profile: rates of GEMMs, attention, memory and collectives, with which `cistron plan` and parallel.shard
 * = "auto" predict the time of a step. `cistron measure` writes it to a file (estimate/rates_file.h), which the key
 * device.rates_file names. Rates that are not measured are those of an H200 (bench/results/gpu_layouts.txt): GEMMs
 * reach 0.6 of a peak of 989 TFLOP/s (or of device.peak), 8-bit GEMMs twice that, attention 0.3 of the peak; memory is
 * read and written at 4 TB/s; a rank receives 300 GB/s from ranks on its node (NVLink), and 50 GB/s from other nodes
 * (400 Gbit/s per GPU); copies to and from the host run at 50 GB/s (PCIe 5). */
#ifndef ESTIMATE_RATES_H
#define ESTIMATE_RATES_H

#include "core/op.h"

enum rate_kind {
    RATE_GEMM,               /* FLOP/s, by m, n, k and type */
    RATE_ATTENTION_FORWARD,  /* FLOP/s, by head_dim, tokens of a segment and mask */
    RATE_ATTENTION_BACKWARD, /* FLOP/s of five GEMMs, by head_dim, tokens of a segment and mask */
    RATE_MEMORY,             /* bytes read and written per second, by the op's bytes */
    RATE_HOST,               /* bytes copied to the host per second, by the copy's bytes */
    /* bytes that a rank receives per second, by ranks of the group and bytes */
    RATE_ALL_REDUCE,
    RATE_REDUCE_SCATTER,
    RATE_ALL_GATHER,
    RATE_ALL_TO_ALL,
    RATE_SHIFT,
    RATE_KINDS
};

/* Types of GEMMs, by operands. A weight gradient is accumulated in f32. */
enum rate_gemm { RATE_F32, RATE_BF16, RATE_FP8, RATE_F32_GRADIENT, RATE_BF16_GRADIENT, RATE_FP8_GRADIENT };
/* Types of attention. */
enum rate_mask { RATE_FULL, RATE_CAUSAL };

enum { RATES_MOST = 1024, RATE_SIZES = 3, RATES_DEVICE = 64 };

/* One measured rate. */
struct machine_rate {
    enum rate_kind kind;
    int type; /* enum rate_gemm or rate_mask; 0 for other kinds */
    double size[RATE_SIZES];
    double per_second;
    double log_size[RATE_SIZES], log_rate; /* logarithms to base 2, set by rates_add */
};

/* Plain data, which ranks of the same build may send as bytes. */
struct machine_rates {
    char device[RATES_DEVICE]; /* name of the measured device; "": none */
    int64_t node;              /* number of consecutive ranks on a node; the caller sets it */
    double peak;               /* FLOP/s, for GEMMs and attention that are not measured */
    double between_nodes;      /* bytes per second that a rank receives from other nodes */
    int count;
    struct machine_rate measured[RATES_MOST];
};

/* Writes the rates of an H200, on nodes of 8 ranks. peak: FLOP/s of the device, 0: unknown. */
void rates_default(struct machine_rates *rates, double peak);

/* Adds a rate, of which the first four fields are set. Returns false if there are RATES_MOST already. */
bool rates_add(struct machine_rates *rates, const struct machine_rate *rate);

/* Returns whether the rates predict the time of a step of `ranks` ranks: on GPUs always; on CPUs only if all kinds are
 * measured, with several ranks those of collectives too, because an H200's rates do not apply to a CPU. */
bool rates_predict(const struct machine_rates *rates, bool gpus, int64_t ranks);

/* Returns how many numbers of `size` a kind of rate has. */
int rate_sizes(enum rate_kind kind);

/* Returns the rate at a size: the weighted mean, in logarithms, of the measured rates of this kind and type. The
 * weights are 1 / distance^4 in logarithms of sizes (Shepard 1968); a rate measured at this size is returned unchanged.
 * If none is measured, returns the H200's. */
double rates_at(const struct machine_rates *rates, enum rate_kind kind, int type, const double size[RATE_SIZES]);

/* Returns the seconds to move `bytes` bytes: at least those of the smallest measured size, since fewer bytes do not
 * take less time. */
double rates_seconds(const struct machine_rates *rates, enum rate_kind kind, int64_t ranks, double bytes);

/* Returns the type of a GEMM, enum rate_gemm. */
int rate_gemm_of(const struct gemm_args *args);

/* Returns the seconds of an op that is not a collective. flops: its FLOPs if it is a GEMM or attention, else 0. tokens:
 * length of the segments that attention sees. */
double rates_op_seconds(const struct machine_rates *rates, enum op op, const void *args, double flops, int64_t tokens);

/* Returns the seconds of a collective over `ranks` ranks, `near` of them on each node, in which a rank receives `bytes`
 * bytes. If near < ranks, the ranks of a node share their network cards for the transfer between nodes. */
double rates_transfer_seconds(const struct machine_rates *rates, enum op op, int64_t ranks, int64_t near, double bytes);

#endif
