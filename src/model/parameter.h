/* Parameters and weights. A parameter is a tensor of the model as checkpoints have it. A weight is a matrix or vector
 * in memory as ops read it, and consists of one or more parameters. */
#ifndef MODEL_PARAMETER_H
#define MODEL_PARAMETER_H

#include "architecture/settings.h"

struct linear_precision;
struct unit;

/* Weights start at a multiple of this in a flat buffer, 256 bytes in bf16. */
enum { UNIT_ALIGNMENT = 128 /* elements */ };

/* The kind of buffer that a weight lies in. Each unit has one flat buffer of each storage class. */
enum storage_class { STORAGE_MATRIX, STORAGE_VECTOR, STORAGE_COUNT };

/* The distribution from which a parameter is initialised. */
enum initial_kind { INIT_CONSTANT, INIT_NORMAL, INIT_UNIFORM };

struct initial_value {
    enum initial_kind kind;
    double value;     /* CONSTANT: the value; NORMAL: the standard deviation; UNIFORM: the bound of both signs */
    int64_t zero_row; /* this row of the global tensor is zero; -1: none */
};

struct rectangle {
    int64_t row, col, rows, cols;
};

/* A parameter. The unit has a part of it: a rectangle, whose rows may be strided over the global tensor. */
struct parameter {
    char name[96];         /* in checkpoints, as Hugging Face spells it */
    int64_t rows, cols;    /* global shape; a vector is 1 x n */
    struct rectangle part; /* this rank's rectangle of the global tensor; all of it without tensor parallelism; no rows
                              if another tensor rank alone has the parameter */
    int64_t height, apart; /* the part consists of pieces of `height` rows, whose starts are `apart` rows apart in the
                              global tensor */
    int owner, owners;     /* `owners` tensor ranks have the same part; this rank is number `owner` of them */
    bool partial;          /* the gradient is the sum of the terms that these ranks compute */
    enum storage_class storage;
    int64_t offset; /* elements, in the unit's flat buffer */
    struct initial_value initial;
};

/* A weight: one or more parameters, one below the other. */
struct weight {
    int64_t rows, cols;
    enum storage_class storage;
    int64_t offset;    /* elements, in the flat buffer; a multiple of UNIT_ALIGNMENT */
    int64_t reserved;  /* elements in the flat buffer, a multiple of UNIT_ALIGNMENT; zero after the weight */
    struct unit *home; /* the unit whose buffers contain the weight: this unit, or its lender (unit_lender) */
    /* quantized: the recipe, if GEMMs in training read an 8-bit quantized form of this weight, with one scale, that the
     * store keeps; else NULL. operand: its operand number (model/linear.h). */
    const struct linear_precision *quantized;
    int operand;
};

/* Returns `elements` rounded up to a multiple of UNIT_ALIGNMENT. */
int64_t unit_aligned(int64_t elements);
/* Places the part, whose size is set, at row, col of a global tensor [rows, cols]. Fatal if it does not fit. Before
 * this call the part is the whole tensor. The caller sets owner and owners if other ranks have the same part. */
void parameter_place(struct parameter *parameter, int64_t rows, int64_t cols, int64_t row, int64_t col);
/* Declares that all tensor ranks have the whole parameter. partial: each rank computes a term of its gradient; else
 * each computes the whole gradient. */
void parameter_share(struct parameter *parameter, const struct tensor_parallel *tensor, bool partial);
/* Returns whether one tensor rank has the whole parameter, and other ranks have no rows of it. */
bool parameter_on_one_rank(const struct parameter *parameter);
/* Returns the part that tensor rank number `rank` has of a matrix that is split evenly; a part's height and apart are
 * equal on all ranks. */
struct rectangle parameter_part_of(const struct parameter *parameter, int rank);
/* Returns the row of the global tensor that is row `row` of the part. */
int64_t parameter_row(const struct parameter *parameter, int64_t row);

#endif
