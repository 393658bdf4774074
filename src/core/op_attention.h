/* Arguments of ops (core/op.h): rotary position embedding and attention. */
#ifndef CORE_OP_ATTENTION_H
#define CORE_OP_ATTENTION_H

#include "core/tensor.h"

/* Rotary position embedding (Su et al. 2021), in place. Rotates each pair (x1, x2) of a head's elements: x1' = x1 cos -
 * x2 sin, x2' = x2 cos + x1 sin; inverse: with -sin. Pair i is elements 2 i and 2 i + 1 when interleaved, else elements
 * i and head_dim / 2 + i (Hugging Face's rotate_half). */
struct rope_args {
    struct tensor x;         /* f [T, heads * head_dim], in place */
    struct tensor positions; /* i32 [1, T]: row numbers in the table */
    struct tensor table;     /* stat [positions, head_dim]: head_dim / 2 cosines, then head_dim / 2 sines */
    int64_t head_dim;
    bool interleaved;
    bool inverse;
};

enum { ATTENTION_LONGEST_WINDOW = 1 << 30 }; /* so that 32 bits suffice for positions and windows */

/* Segments of a packed batch: tables on the device, with one slot per segment. A slot with q_length 0 is empty. Query i
 * of a segment sees key j of the same segment if not causal, or if j <= i + q_offset, and with a sliding window also j
 * > i + q_offset - window; i and j count from 0 within the segment. If k and v use the tables of q, q_offset is all
 * zeros.
 *
 * Segments never share rows of q. In a backward they do not share rows of k and v either: if several segments see the
 * same keys, launch once for each segment and accumulate dk and dv.
 *
 * `longest` and `full` are what the host knows of the tables. They describe the queries if keys have tables
 * of their own. */
struct attention_segments {
    struct tensor q_start, q_length;   /* i32 [1, slots]: first row and number of rows of q and o */
    struct tensor kv_start, kv_length; /* i32 [1, slots]: first row and number of rows of k and v */
    struct tensor q_offset;            /* i32 [1, slots] */
    int64_t longest;                   /* maximum rows of a segment; 0: unknown */
    bool full;                         /* slot s has the `longest` rows from row s * longest on, and no row is left */
    int64_t again; /* the last `again` launches on this stream were this op, with the same shapes and the same,
                      unchanged tables, so the executor may reuse what it derived from them; 0: unknown */
};

/* o = softmax(scale * q k') v and lse = log(sum(exp(scale * q k'))), over the keys that a query sees; k' is k
 * transposed. Query head h uses kv head h / (heads / kv_heads). Rows outside all segments, and rows that see no key,
 * have o = 0 and lse = minus infinity, which is weight 0 when results over parts of the keys are merged. (Dao et al.
 * 2022.) */
struct attention_forward_args {
    struct tensor q;    /* f [Tq, heads * head_dim]; q, k, v and o may have any row stride */
    struct tensor k, v; /* f [Tk, kv_heads * head_dim] */
    struct tensor o;    /* f [Tq, heads * head_dim] */
    struct tensor lse;  /* stat [heads, Tq] */
    struct attention_segments segments;
    int64_t heads, kv_heads, head_dim;
    float scale;
    bool causal;
    int64_t window; /* sliding window: keys that a query sees at most, itself included; 0: no limit; causal only */
};

/* Gradients of attention_forward: dq, dk and dv (+)= the gradient, which is 0 for rows outside all segments. k and v
 * may be one part of the keys that o and lse were computed from; the gradients are then the sums over the launches for
 * all parts.
 *
 * With positions, q and k are outputs of rope, and dq and dk become the gradients of rope's inputs: the gradients of q
 * and k, rotated by the inverse of rope. They may be rounded before the rotation. */
struct attention_backward_args {
    struct tensor q, k, v, o, lse; /* as in attention_forward */
    struct tensor d_o;             /* f [Tq, heads * head_dim] */
    struct tensor dq;              /* q's type or stat, shape of q */
    struct tensor dk, dv;          /* k's type or stat, shape of k */
    struct attention_segments segments;
    int64_t heads, kv_heads, head_dim;
    float scale;
    bool causal;
    int64_t window;     /* as in attention_forward */
    bool accumulate_q;  /* accumulate, for dq */
    bool accumulate_kv; /* accumulate, for dk and dv */
    /* Optional, and not with accumulation: rope's arguments, for rows that q and k share. */
    struct tensor positions, table;
    bool interleaved;
};

/* Merges the attention result over one part of the keys into the result over other parts, in f32. With w = exp(lse) and
 * w' = exp(part_lse): o = (w o + w' part_o) / (w + w') and lse = log(w + w'). first: there is no other part yet, so o
 * and lse become the part's. Rows that see no key (lse minus infinity) have weight 0, whatever their o is; if no part
 * has weight, o is 0 and lse minus infinity. With `to`, the new o is also written there, rounded. (Dao et al. 2022.) */
struct attention_merge_args {
    struct tensor part_o;   /* f [T, heads * head_dim] */
    struct tensor part_lse; /* stat [heads, T] */
    struct tensor o;        /* stat [T, heads * head_dim] */
    struct tensor lse;      /* stat [heads, T] */
    struct tensor to;       /* optional f [T, heads * head_dim] */
    int64_t heads, head_dim;
    bool first;
};

#endif
