# A bare chroot has no /proc: sessions and recordings are written all the same, and the guard is found.
unshare -m sh -c 'mount -t tmpfs none /proc' 2>/dev/null || { echo "no right to mount over /proc" >&2; exit 77; }
[ -z "${ASAN_OPTIONS-}" ] || { echo "a sanitizer reads its options from /proc" >&2; exit 77; }
bare() { unshare -m sh -c 'mount -t tmpfs none /proc && exec "$@"' - "$@"; }
bare "$PLUMB" analyze "$TESTS/small.onnxtxt" --backend jit -o session >/dev/null && ls session/session.json
bare "$PLUMB" record "$TESTS/small.onnxtxt" -o r.safetensors >/dev/null && ls r.safetensors
