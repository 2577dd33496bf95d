/* ONNX Runtime's C API by slot number: no header of theirs is needed.
 *
 * The table of functions only ever grows, so a slot is the same in every version that has it (1.12
 * to 1.30, checked against the headers of API 22 and 29). X(slot, since 1.N, name, result, args).
 */
#ifndef PL_ORT_API_H
#define PL_ORT_API_H

#include <stdint.h>

#include "base/status.h"

typedef void *pl_ort_status; /* NULL is success */

/* clang-format off */
#define PL_ORT_SLOTS(X)                                                                                                        \
    X(1,   12, GetErrorCode, int, (void *))                                                                                    \
    X(2,   12, GetErrorMessage, const char *, (void *))                                                                        \
    X(3,   12, CreateEnv, pl_ort_status, (int, const char *, void **))                                                         \
    X(7,   12, CreateSession, pl_ort_status, (void *, const char *, void *, void **))                                          \
    X(8,   12, CreateSessionFromArray, pl_ort_status, (void *, const void *, size_t, void *, void **))                         \
    X(9,   12, Run, pl_ort_status, (void *, void *, const char *const *, void *const *, size_t, const char *const *, size_t, void **)) \
    X(10,  12, CreateSessionOptions, pl_ort_status, (void **))                                                                 \
    X(11,  12, SetOptimizedModelFilePath, pl_ort_status, (void *, const char *))                                               \
    X(14,  12, EnableProfiling, pl_ort_status, (void *, const char *))                                                         \
    X(22,  12, SetSessionLogSeverityLevel, pl_ort_status, (void *, int))                                                       \
    X(23,  12, SetSessionGraphOptimizationLevel, pl_ort_status, (void *, int))                                                 \
    X(24,  12, SetIntraOpNumThreads, pl_ort_status, (void *, int))                                                             \
    X(25,  12, SetInterOpNumThreads, pl_ort_status, (void *, int))                                                             \
    X(34,  12, SessionGetOutputTypeInfo, pl_ort_status, (void *, size_t, void **))                                             \
    X(48,  12, CreateTensorAsOrtValue, pl_ort_status, (void *, const int64_t *, size_t, int, void **))                         \
    X(49,  12, CreateTensorWithDataAsOrtValue, pl_ort_status, (void *, void *, size_t, const int64_t *, size_t, int, void **)) \
    X(51,  12, GetTensorMutableData, pl_ort_status, (void *, void **))                                                         \
    X(52,  12, FillStringTensor, pl_ort_status, (void *, const char *const *, size_t))                                         \
    X(53,  12, GetStringTensorDataLength, pl_ort_status, (void *, size_t *))                                                   \
    X(54,  12, GetStringTensorContent, pl_ort_status, (void *, void *, size_t, size_t *, size_t))                              \
    X(55,  12, CastTypeInfoToTensorInfo, pl_ort_status, (void *, void **))                                                     \
    X(56,  12, GetOnnxTypeFromTypeInfo, pl_ort_status, (void *, int *))                                                        \
    X(60,  12, GetTensorElementType, pl_ort_status, (void *, int *))                                                           \
    X(61,  12, GetDimensionsCount, pl_ort_status, (void *, size_t *))                                                          \
    X(62,  12, GetDimensions, pl_ort_status, (void *, int64_t *, size_t))                                                      \
    X(65,  12, GetTensorTypeAndShape, pl_ort_status, (void *, void **))                                                        \
    X(67,  12, GetValueType, pl_ort_status, (void *, int *))                                                                   \
    X(68,  12, CreateMemoryInfo, pl_ort_status, (const char *, int, int, int, void **))                                        \
    X(69,  12, CreateCpuMemoryInfo, pl_ort_status, (int, int, void **))                                                        \
    X(76,  12, AllocatorFree, pl_ort_status, (void *, void *))                                                                 \
    X(78,  12, GetAllocatorWithDefaultOptions, pl_ort_status, (void **))                                                       \
    X(80,  12, GetValue, pl_ort_status, (void *, int, void *, void **))                                                        \
    X(81,  12, GetValueCount, pl_ort_status, (void *, size_t *))                                                               \
    X(82,  12, CreateValue, pl_ort_status, (void *const *, size_t, int, void **))                                              \
    X(92,  12, ReleaseEnv, void, (void *))                                                                                     \
    X(93,  12, ReleaseStatus, void, (void *))                                                                                  \
    X(94,  12, ReleaseMemoryInfo, void, (void *))                                                                              \
    X(95,  12, ReleaseSession, void, (void *))                                                                                 \
    X(96,  12, ReleaseValue, void, (void *))                                                                                   \
    X(98,  12, ReleaseTypeInfo, void, (void *))                                                                                \
    X(99,  12, ReleaseTensorTypeAndShapeInfo, void, (void *))                                                                  \
    X(100, 12, ReleaseSessionOptions, void, (void *))                                                                          \
    X(110, 12, SessionEndProfiling, pl_ort_status, (void *, void *, char **))                                                  \
    X(125, 12, GetAvailableProviders, pl_ort_status, (char ***, int *))                                                        \
    X(126, 12, ReleaseAvailableProviders, pl_ort_status, (char **, int))                                                       \
    X(130, 12, AddSessionConfigEntry, pl_ort_status, (void *, const char *, const char *))                                     \
    X(133, 12, RunWithBinding, pl_ort_status, (void *, void *, void *))                                                        \
    X(134, 12, CreateIoBinding, pl_ort_status, (void *, void **))                                                              \
    X(135, 12, ReleaseIoBinding, void, (void *))                                                                               \
    X(136, 12, BindInput, pl_ort_status, (void *, const char *, void *))                                                       \
    X(138, 12, BindOutputToDevice, pl_ort_status, (void *, const char *, void *))                                              \
    X(140, 12, GetBoundOutputValues, pl_ort_status, (void *, void *, void ***, size_t *))                                      \
    X(170, 12, SessionOptionsAppendExecutionProvider_TensorRT_V2, pl_ort_status, (void *, void *))                             \
    X(171, 12, CreateTensorRTProviderOptions, pl_ort_status, (void **))                                                        \
    X(174, 12, ReleaseTensorRTProviderOptions, void, (void *))                                                                 \
    X(192, 12, HasValue, pl_ort_status, (void *, int *))                                                                       \
    X(204, 12, SessionOptionsAppendExecutionProvider_CUDA_V2, pl_ort_status, (void *, void *))                                 \
    X(205, 12, CreateCUDAProviderOptions, pl_ort_status, (void **))                                                            \
    X(208, 12, ReleaseCUDAProviderOptions, void, (void *))                                                                     \
    X(216, 12, SessionOptionsAppendExecutionProvider, pl_ort_status, (void *, const char *, const char *const *, const char *const *, size_t)) \
    X(273, 18, SetDeterministicCompute, pl_ort_status, (void *, int))                                                          \
    X(386, 23, CopyTensors, pl_ort_status, (void *, void *const *, void *const *, void *, size_t))
/* clang-format on */

enum { PL_ORT_MIN = 12, PL_ORT_MAX = 30 }; /* 1.N up to which the table was checked */

typedef struct pl_ort_api {
    void *library;
    char version[32]; /* "1.27.0" */
    char path[512];   /* as it was opened */
    int minor;
#define X(slot, since, name, result, args)                                                         \
    result(*name) args; /* NULL when the version lacks it                                          \
                         */
    PL_ORT_SLOTS(X)
#undef X
} pl_ort_api;

/* Opens `lib`, or (NULL) the first that exists of $PLUMB_ORT_LIB, .cache/ort-1.27.0 beside the
 * program or its folder, the loader's path. Telemetry (1.29 and later) is switched off first. */
pl_status pl_ort_api_open(const char *lib, pl_ort_api *api, pl_err *err);
void pl_ort_api_close(pl_ort_api *api);

/* Turns a status into ours, "doing: [class] text", and releases it. NULL is PL_OK. */
pl_status pl_ort_check(const pl_ort_api *api, pl_ort_status status, const char *doing, pl_err *err);

#endif
