#include "data/window_source.h"

int64_t window_length(const struct token_window *window)
{
    return window->length + window->has_bos + window->has_eos;
}
