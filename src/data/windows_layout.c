#include "data/windows_layout.h"
#include "base/error.h"
#include "base/range.h"

enum { CODE_MODE = 0xff, CODE_NO_BOS = 0x100, CODE_NO_EOS = 0x200 };

int64_t windows_specials(const struct windows_layout *layout)
{
    return !layout->no_bos + !layout->no_eos;
}

int64_t windows_code(const struct windows_layout *layout)
{
    return layout->mode + layout->no_bos * CODE_NO_BOS + layout->no_eos * CODE_NO_EOS;
}

struct windows_layout windows_layout_from(int64_t window, int64_t overlap, int64_t code)
{
    return (struct windows_layout){window, overlap, (enum windows_mode)(code & CODE_MODE), (code & CODE_NO_BOS) != 0,
                                   (code & CODE_NO_EOS) != 0};
}

/* capacity returns the number of tokens that one window covers, tokens_to_split the number of tokens of a sequence to
 * split. With WINDOWS_ENDS both count special tokens. */
static int64_t capacity(const struct windows_layout *layout)
{
    return layout->mode == WINDOWS_ENDS ? layout->window : layout->window - windows_specials(layout);
}

static int64_t tokens_to_split(const struct windows_layout *layout, int64_t length)
{
    if (layout->mode == WINDOWS_FIRST)
        return MIN(length, capacity(layout));
    return layout->mode == WINDOWS_ENDS ? length + windows_specials(layout) : length;
}

int64_t windows_count(const struct windows_layout *layout, int64_t length)
{
    int64_t room = capacity(layout), step = room - layout->overlap, rest = tokens_to_split(layout, length) - room;
    if (length == 0)
        return 0;
    return rest <= 0 ? 1 : (rest + step - 1) / step + 1;
}

int64_t windows_tokens(const struct windows_layout *layout, int64_t length)
{
    int64_t count = windows_count(layout, length);
    if (count == 0)
        return 0;
    int64_t shared = (count - 1) * layout->overlap;
    return tokens_to_split(layout, length) + shared +
           (layout->mode == WINDOWS_ENDS ? 0 : windows_specials(layout) * count);
}

struct token_window windows_at(const struct windows_layout *layout, int64_t length, int64_t k)
{
    int64_t from = k * (capacity(layout) - layout->overlap), to = from + capacity(layout);
    if (to > tokens_to_split(layout, length))
        to = tokens_to_split(layout, length);
    struct token_window window = {.has_bos = !layout->no_bos, .has_eos = !layout->no_eos};
    if (layout->mode == WINDOWS_ENDS) { /* from and to count BOS as the first token and EOS as the last */
        const bool bos = window.has_bos;
        window.has_bos = bos && from == 0;
        window.has_eos = window.has_eos && to == tokens_to_split(layout, length);
        from -= bos && from > 0;
        to -= bos + window.has_eos;
    }
    window.start = from;
    window.length = to - from;
    return window;
}

int windows_check_layout(const struct windows_layout *layout)
{
    if (layout->window < 4)
        return error_user("key data.window = %lld: must be at least 4 tokens", (long long)layout->window);
    if (layout->overlap < 0 || layout->overlap >= capacity(layout))
        return error_user("key data.overlap = %lld: must be between 0 and %lld for data.window = %lld",
                          (long long)layout->overlap, (long long)capacity(layout) - 1, (long long)layout->window);
    if (layout->mode == WINDOWS_FIRST && layout->overlap > 0)
        return error_user("key data.overlap = %lld: must be 0 with data.truncate, which uses one window per sequence",
                          (long long)layout->overlap);
    return ERROR_NONE;
}
