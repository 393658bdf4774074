#!/bin/bash
# Readers of files that may be damaged run without findings under the address and undefined-behaviour sanitizers, in a
# build of their own, with 12,000 fuzzed inputs of safetensors.
. "$abs_top_srcdir/tests/lib.sh"
programs="tests/t_damage tests/t_data_baseline tests/t_data_records tests/t_data_store tests/t_data_windows tests/t_deck tests/t_parquet tests/t_megatron tests/t_safetensors tests/t_safetensors_writer tests/t_splitter tests/t_sentencepiece tests/t_tokenizer tests/t_tokenizer_files"
fuzzers="records parquet deck side checkpoint store megatron safetensors tokenizer"

CC=$(sed -n 's/^CC = //p' "$abs_top_builddir/Makefile")
printf 'int main(void) { return 0; }\n' >"$work/try.c"
# shellcheck disable=SC2086
if ! $CC -fsanitize=address,undefined -o "$work/try" "$work/try.c" 2>/dev/null || ! "$work/try"; then
    echo "skipped: $CC has no sanitizers here"
    exit 77
fi

source=$abs_top_srcdir
if [ -f "$source/config.status" ]; then # configure would refuse to build elsewhere what is built in place
    cp -a "$source" "$work/source"
    source="$work/source"
    make -s -C "$source" distclean >/dev/null
fi
mkdir "$work/build"
cd "$work/build" || exit 1
targets="$programs $(printf 'tests/fuzz/fuzz_%s ' $fuzzers)"
# failed: shows what configure or make said, and ends the test
failed()
{
    tail -n 20 "$work/log"
    exit 1
}
"$source/configure" -q --enable-sanitizer --without-cuda CC="$CC" CFLAGS="-O1 -g1" >"$work/log" 2>&1 || failed
# The linker's map of the programs with the library of the build under test names the objects that they need: half of
# all, without most kernels. Where such a link fails, as with CUDA, all objects are built.
needed=()
cp "$abs_top_builddir/libcistron.a" .
# shellcheck disable=SC2086
if make -O -j2 -o libcistron.a LDFLAGS=-Wl,-M $targets >"$work/map" 2>&1; then
    sed -n 's/^libcistron\.a(\([^)]*\.o\)).*/\1/p' "$work/map" | sort -u >"$work/members"
    needed=(libcistron_a_OBJECTS="$(make -s -f Makefile -f <(echo 'objects: ; @echo $(libcistron_a_OBJECTS)') objects |
        tr ' ' '\n' | grep -E "/($(paste -sd '|' "$work/members"))\$" | paste -sd ' ')")
fi
# shellcheck disable=SC2086
rm -f libcistron.a $targets
# shellcheck disable=SC2086
make -j2 "${needed[@]}" $targets >"$work/log" 2>&1 || failed
echo "compiled for the sanitizers: $(find src -name '*.o' | wc -l) objects of the library"

# passes COMMAND...: ends with 0, and no sanitizer has spoken
passes()
{
    "$@" >"$work/out" 2>&1 && ! grep -q 'runtime error\|ERROR: AddressSanitizer' "$work/out" && return
    tail -n 40 "$work/out" >&2
    return 1
}
for program in $programs; do
    check "$program has the sanitizer in it" grep -q __asan_init "$program"
    check "$program" passes sh "$abs_top_srcdir/tests/launch" "$program"
done
for fuzzer in $fuzzers; do
    inputs=400
    case $fuzzer in safetensors | parquet) inputs=12000 ;; esac # small files, and their readers see what others have made
    check "fuzz_$fuzzer" passes timeout 120 tests/fuzz/fuzz_$fuzzer -n $inputs -s 2 -o "$work"
done
finish
