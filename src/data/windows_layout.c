#include "data/windows_layout.h"
#include "base/error.h"

/* Tokens that one window takes of what is cut, and how many tokens of a sequence there are to cut. */
static int64_t capacity(const struct windows_layout *layout)
{
    return layout->cut == WINDOWS_ENDS ? layout->window : layout->window - 2;
}

static int64_t cuttable(const struct windows_layout *layout, int64_t length)
{
    if (layout->cut == WINDOWS_FIRST)
        return length < capacity(layout) ? length : capacity(layout);
    return layout->cut == WINDOWS_ENDS ? length + 2 : length;
}

int64_t windows_count(const struct windows_layout *layout, int64_t length)
{
    int64_t room = capacity(layout), step = room - layout->overlap, rest = cuttable(layout, length) - room;
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
    return cuttable(layout, length) + shared + (layout->cut == WINDOWS_ENDS ? 0 : 2 * count);
}

struct window windows_cut(const struct windows_layout *layout, int64_t length, int64_t k)
{
    int64_t from = k * (capacity(layout) - layout->overlap), to = from + capacity(layout);
    if (to > cuttable(layout, length))
        to = cuttable(layout, length);
    struct window window = {.has_bos = true, .has_eos = true};
    if (layout->cut == WINDOWS_ENDS) { /* from and to count BOS as token 0 and EOS as token length + 1 */
        window.has_bos = from == 0;
        window.has_eos = to == length + 2;
        from = from == 0 ? 0 : from - 1;
        to = window.has_eos ? length : to - 1;
    }
    window.start = from;
    window.length = to - from;
    return window;
}

int windows_check_layout(const struct windows_layout *layout)
{
    if (layout->window < 4)
        return error_user("key data.window = %lld: a window holds at least 4 tokens", (long long)layout->window);
    if (layout->overlap < 0 || layout->overlap >= capacity(layout))
        return error_user("key data.overlap = %lld: must be between 0 and %lld for data.window = %lld",
                          (long long)layout->overlap, (long long)capacity(layout) - 1, (long long)layout->window);
    if (layout->cut == WINDOWS_FIRST && layout->overlap > 0)
        return error_user("key data.overlap = %lld: must be 0 with data.truncate, which leaves one window a sequence",
                          (long long)layout->overlap);
    return ERROR_NONE;
}
