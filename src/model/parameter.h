/* A parameter of a model, as files and the store know it, and the weights in memory that parameters make up. */
#ifndef MODEL_PARAMETER_H
#define MODEL_PARAMETER_H

#include "architecture/settings.h"

struct linear_precision;
struct unit;

enum { UNIT_ALIGNMENT = 128 /* elements */ };

/* Where a parameter lives. Each unit has one flat buffer per storage class. */
enum storage_class { STORAGE_MATRIX, STORAGE_VECTOR, STORAGE_COUNT };

/* What a parameter starts as. */
enum initial_kind { INIT_CONSTANT, INIT_NORMAL, INIT_UNIFORM };

struct initial_value {
    enum initial_kind kind;
    double value;     /* the constant, the standard deviation, or the bound of both signs */
    int64_t zero_row; /* this row of the global tensor is zeros; -1 = none */
};

struct rectangle {
    int64_t row, col, rows, cols;
};

/* A parameter as files know it. Several parameters may be one weight in memory (q, k and v). */
struct parameter {
    char name[96];         /* public name, as Hugging Face spells it; the path in checkpoints */
    int64_t rows, cols;    /* global shape; a vector is 1 x n */
    struct rectangle part; /* what the unit has of it: all, unless ranks have parts of a layer (parameter_place) */
    int64_t height, apart; /* the part is pieces of `height` rows, which begin every `apart` rows of the tensor */
    int holder, holders;   /* as many of these ranks have the same part; this one is number `holder` of them */
    bool partial;          /* each of these ranks makes a part of its gradient, which is their sum */
    enum storage_class storage;
    int64_t offset; /* elements, in the unit's flat buffer */
    struct initial_value initial;
};

/* A matrix or vector as ops read it: one or more parameters one below the other. Starts at a multiple of 256 bytes. */
struct weight {
    int64_t rows, cols;
    enum storage_class storage;
    int64_t offset;    /* elements, in the unit's flat buffer */
    int64_t room;      /* elements that it takes there: a multiple of UNIT_ALIGNMENT; those behind it are zeros */
    struct unit *home; /* the unit whose buffers hold it: itself, or the embedding for a tied head */
    /* Where products in training read 8-bit copies of it with one scale for all, which the store keeps: how they are
     * made, and the operand's number (model/linear.h). Else NULL. */
    const struct linear_precision *copied;
    int operand;
};

/* The elements that a weight of so many takes in a flat buffer: a multiple of UNIT_ALIGNMENT. */
int64_t unit_aligned(int64_t elements);
/* Says that what was declared is a part of a tensor [rows, cols], in which it starts at row, col. Until then it is the
 * whole. Where other ranks have the same part, the caller sets holder and holders. */
void parameter_place(struct parameter *parameter, int64_t rows, int64_t cols, int64_t row, int64_t col);
/* All tensor ranks have the whole parameter, of whose gradient each makes all, or a part. */
void parameter_share(struct parameter *parameter, const struct layer_cut *layer, bool partial);
/* The row of the tensor that is row number `row` of the part. */
int64_t parameter_row(const struct parameter *parameter, int64_t row);

#endif
