#include "model/parameter.h"
#include "base/error.h"

int64_t unit_aligned(int64_t elements)
{
    return (elements + UNIT_ALIGNMENT - 1) / UNIT_ALIGNMENT * UNIT_ALIGNMENT;
}

void parameter_place(struct parameter *parameter, int64_t rows, int64_t cols, int64_t row, int64_t col)
{
    struct rectangle *part = &parameter->part;
    if (row < 0 || col < 0 || row + part->rows > rows || col + part->cols > cols)
        error_fatal("bug: the part of %s ends outside of the tensor", parameter->name);
    parameter->rows = rows;
    parameter->cols = cols;
    part->row = row;
    part->col = col;
}

void parameter_share(struct parameter *parameter, const struct tensor_parallel *tensor, bool partial)
{
    parameter->owner = tensor->rank;
    parameter->owners = tensor_ranks(tensor);
    parameter->partial = partial && parameter->owners > 1;
}

bool parameter_on_one_rank(const struct parameter *p)
{
    const bool whole = p->part.rows == p->rows && p->part.cols == p->cols;
    return p->owners == 1 && (whole || p->part.rows == 0);
}

int64_t parameter_row(const struct parameter *parameter, int64_t row)
{
    return parameter->part.row + row / parameter->height * parameter->apart + row % parameter->height;
}

struct rectangle parameter_part_of(const struct parameter *parameter, int rank)
{
    struct rectangle part = parameter->part;
    if (part.cols < parameter->cols)
        part.col = rank * part.cols;
    else if (part.rows < parameter->rows)
        part.row = rank / parameter->owners * parameter->height;
    return part;
}
