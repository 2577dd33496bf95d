# A bare chroot has no /proc: sessions and recordings are written all the same, and the guard is found.
unshare -m sh -c 'mount -t tmpfs none /proc' 2>/dev/null || { echo "no right to mount over /proc" >&2; exit 77; }
# LeakSanitizer looks for leaks in /proc.
[ -z "${ASAN_OPTIONS-}" ] || export ASAN_OPTIONS="$ASAN_OPTIONS:detect_leaks=0"
bare() { unshare -m sh -c 'mount -t tmpfs none /proc && exec "$@"' - "$@"; }
bare "$PLUMB" analyze "$TESTS/small.onnxtxt" --backend jit -o session >/dev/null && ls session/session.json
bare "$PLUMB" record "$TESTS/small.onnxtxt" -o r.safetensors >/dev/null && ls r.safetensors
