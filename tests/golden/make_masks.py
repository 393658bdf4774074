"""Prints the places that t_masking.c knows to be selected: masks by their definition, without Cistron.

    make_masks.py

Philox4x32-10 (Salmon et al., SC11), keyed as src/base/random.c and src/loader/masking.c say: an epoch of a store and a
window's number make the window's stream, a place in the window is the index in it. Needs Python alone.
"""

MASK = 6  # enum random_purpose
WORD = 0xFFFFFFFF


def philox(counter, key):
    c, k = list(counter), list(key)
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [p1 >> 32 ^ c[1] ^ k[0], p1 & WORD, p0 >> 32 ^ c[3] ^ k[1], p0 & WORD]
        k = [k[0] + 0x9E3779B9 & WORD, k[1] + 0xBB67AE85 & WORD]
    return c


def bits(seed, stream, index):
    """64 bits of element `index` of a stream."""
    name = philox((stream & WORD, stream >> 32, MASK, 0x63697374), (seed & WORD, seed >> 32))
    out = philox((index & WORD, index >> 32, name[0], name[1]), (name[2], name[3]))
    return out[0] << 32 | out[1]


def selected(seed, store, epoch, window, places, probability):
    stream = bits(seed, store << 48 | epoch, window)
    return [i for i, place in enumerate(places) if (bits(seed, stream, place) >> 11) * 2.0**-53 < probability]


if __name__ == "__main__":
    print(selected(seed=42, store=2, epoch=5, window=123456789, places=range(3, 103), probability=0.15))
