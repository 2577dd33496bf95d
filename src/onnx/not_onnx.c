#include "onnx/not_onnx.h"

#include <stdint.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"

typedef struct magic_row {
    size_t at;
    const char *bytes;
    size_t n;
    const char *suffix; /* NULL = any */
    const char *what;
} magic_row;

#define PYTORCH "a PyTorch file; export the module with torch.onnx.export (docs/pytorch.md)"

/* The first match wins. */
/* clang-format off */
static const magic_row rows[] = {
    { 0, "PK\x03\x04", 4, ".npz", "an npz archive of tensors, without a graph; use it as inputs, as the reference or in 'plumb compare'" },
    { 0, "PK\x03\x04", 4, ".keras", "a Keras file; convert it with tf2onnx" },
    { 0, "PK\x03\x04", 4, ".zip", "a zip archive; unpack it and pass the .onnx file in it" },
    { 0, "PK\x03\x04", 4, ".onnx", "a zip archive or a PyTorch file; unpack it, or export the module with torch.onnx.export" },
    { 0, "PK\x03\x04", 4, NULL, PYTORCH },
    { 0, "\x1f\x8b", 2, NULL, "compressed; unpack it with gunzip" },
    { 0, "\xfd" "7zXZ", 5, NULL, "compressed; unpack it with unxz" },
    { 0, "\x28\xb5\x2f\xfd", 4, ".zst", "compressed; unpack it with unzstd" },
    { 0, "BZh", 3, ".bz2", "compressed; unpack it with bunzip2" },
    { 0, "7z\xbc\xaf", 4, NULL, "an archive; unpack it with 7z" },
    { 257, "ustar", 5, NULL, "a tar archive; unpack it and pass the .onnx file in it" },
    { 0, "\x80\x02", 2, NULL, PYTORCH },
    { 4, "TFL3", 4, NULL, "a TensorFlow Lite model; convert it with tf2onnx --tflite" },
    { 0, "GGUF", 4, NULL, "a GGUF file: weights without a graph; list them with 'plumb info', compare them with 'plumb compare'; to run it, export the model to ONNX" },
    { 0, "version https://git-lfs", 23, NULL, "a Git LFS pointer, not the file itself; run 'git lfs pull'" },
    { 0, "ptrt", 4, NULL, "a TensorRT engine; pass the ONNX model that it was built from" },
    { 0, "ftrt", 4, NULL, "a TensorRT engine; pass the ONNX model that it was built from" },
    { 4, "ORTM", 4, NULL, "a model in ONNX Runtime's own format (.ort); pass the .onnx file that it was made from" },
    { 0, "\x89HDF", 4, NULL, "an HDF5 file (Keras); convert it with tf2onnx" },
    { 0, "\x93NUMPY", 6, NULL, "an npy tensor; use it as an input or in 'plumb compare'" },
    { 0, "\x7f" "ELF", 4, NULL, "a program or library; use it as a backend: cmd:PROGRAM or plugin:FILE.so" },
};
/* clang-format on */

static bool is_safetensors(const unsigned char *p, size_t n) {
    uint64_t length = 0;
    if (n < 10) return false;
    memcpy(&length, p, sizeof(length));
    return length > 1 && length <= n - 8 && p[8] == '{' && p[8 + length - 1] != 0;
}

static bool is_text(const unsigned char *p, size_t n) {
    for (size_t i = 0; i < n && i < 64; i++)
        if ((p[i] < 32 && p[i] != '\n' && p[i] != '\r' && p[i] != '\t') || p[i] == 127)
            return false;
    return n > 0;
}

const char *pl_not_onnx(const void *data, size_t n, const char *path, bool failed) {
    const unsigned char *p = data;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const magic_row *r = &rows[i];
        if (n < r->at + r->n || memcmp(p + r->at, r->bytes, r->n) != 0) continue;
        if (r->suffix == NULL || pl_path_has_suffix(path, r->suffix)) return r->what;
    }
    if (is_safetensors(p, n))
        return "a safetensors file: tensors without a graph; use it as the reference or in "
               "'plumb compare'";
    if (!failed) return NULL;
    if (n == 0) return "empty";
    if (strcmp(pl_path_basename(path), "session.json") == 0)
        return "the data of a session; open its folder with 'plumb view' or 'plumb report'";
    if (pl_path_has_suffix(path, ".mlmodel"))
        return "a Core ML model; convert the source model to ONNX";
    if (pl_path_has_suffix(path, ".pb"))
        return "not an ONNX model; convert a TensorFlow graph with tf2onnx, use a TensorProto "
               "as an input";
    if (is_text(p, n) && n > 11 && memcmp(p, "<ir_version", 11) == 0)
        return "the text form of a model; name it .onnxtxt";
    if (is_text(p, n)) return "text, not an ONNX model";
    return NULL;
}

const char *pl_not_session(const void *data, size_t n, const char *path) {
    if (pl_path_has_suffix(path, ".onnx") || pl_path_has_suffix(path, ".onnxtxt")) return "a model";
    const char *what = pl_not_onnx(data, n, path, true);
    return what == NULL ? "a file of another kind" : what;
}

static bool has(const char *path, const char *name) {
    char *file = pl_path_join(path, name);
    const bool found = file != NULL && pl_path_exists(file);
    pl_free(file);
    return found;
}

const char *pl_not_session_folder(const char *path) {
    if (has(path, "repro.json")) return "a repro";
    if (has(path, "model.onnx")) return "a folder with a model";
    return "a folder without session.json";
}

const char *pl_not_onnx_folder(const char *path) {
    if (pl_path_has_suffix(path, ".mlpackage") || has(path, "Manifest.json"))
        return "a Core ML package; convert the source model to ONNX";
    if (has(path, "saved_model.pb")) return "a TensorFlow SavedModel; convert it with tf2onnx";
    if (has(path, "session.json"))
        return "a session; open it with 'plumb view' or 'plumb report'; its model is in model.onnx";
    return "a folder; pass the .onnx file (convert a SavedModel with tf2onnx)";
}
